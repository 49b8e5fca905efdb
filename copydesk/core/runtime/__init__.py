"""Helpers of a long-running process: threads, futures, memory, private files."""
