"""Fetches, commits, merges and pushes."""
