"""The weekly summary of a project's analytics: its numbers, its mail, who gets it, and when."""
