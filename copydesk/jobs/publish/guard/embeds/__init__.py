"""Finds content that a file makes browsers load or run, with parsers. Ambiguous content counts as loaded."""
