"""Parses the facts of one page that the checks need."""
