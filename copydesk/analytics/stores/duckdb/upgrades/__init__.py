"""Computes what a newer version counts, for the views and visits that an earlier version has stored."""
