"""Checks whether a change may be published."""
