"""Imports access logs: read ▶ parse ▶ convert ▶ store. A line counts once, even if its file is imported again."""
