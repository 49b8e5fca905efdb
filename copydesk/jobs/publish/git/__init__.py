"""Fetch, commit, merge and push."""
