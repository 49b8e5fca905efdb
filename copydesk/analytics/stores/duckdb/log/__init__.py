"""Logging views: ids, duplicate events, and the views that are not folded yet."""
