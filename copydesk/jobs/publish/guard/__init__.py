"""Decides whether a change may be published."""
