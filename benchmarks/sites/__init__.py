"""Builds sample sites with their own generators before and after jobs of the mechanic."""
