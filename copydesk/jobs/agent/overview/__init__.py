"""Descriptions of the repositories that a model gets before its first turn."""
