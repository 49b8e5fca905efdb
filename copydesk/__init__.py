"""Copydesk: turns prompts into pull requests and measures who reads your docs."""

__version__ = "0.1.0"
