"""Decides whether a request came from a person or from AI, and from which agent."""
