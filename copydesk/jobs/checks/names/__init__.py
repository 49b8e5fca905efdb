"""Finds names in a change that the documentation and its sources do not know: invented flags, settings, endpoints."""
