"""Pages of jobs: list, detail, diff and review."""
