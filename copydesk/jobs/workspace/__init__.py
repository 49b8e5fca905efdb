"""The files of a repository in memory: git trees, edits, diffs and their limits."""
