"""The demo: a sample repository, sample traffic, and one job to its pull request."""
