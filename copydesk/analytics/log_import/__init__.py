"""Access logs become views: read ▶ parse ▶ judge ▶ log. Each line counts once, however often its file is imported."""
