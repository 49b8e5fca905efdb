"""Publishes the work of a run: its evidence, its description and its pull request."""
