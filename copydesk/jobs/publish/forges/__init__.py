"""Forges: finding, opening, updating, merging and closing pull requests."""
