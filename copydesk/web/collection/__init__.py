"""Receives page views and feedback."""
