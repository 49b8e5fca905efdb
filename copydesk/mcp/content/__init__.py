"""Serves what clients show to people: resources, prompts, and completions of their arguments."""
