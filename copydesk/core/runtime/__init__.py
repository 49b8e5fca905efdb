"""Helpers of a long-running process: threads, batches, caches, memory, private files."""
