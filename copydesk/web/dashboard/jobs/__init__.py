"""The job pages: list, detail, diff and review."""
