"""Reads what the checks need to know from one page."""
