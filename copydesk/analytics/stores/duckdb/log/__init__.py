"""Logging views: duplicate events, and the views that are not folded yet."""
