"""Copydesk: a prompt becomes a pull request, a page view becomes a number."""

__version__ = "0.1.0"
