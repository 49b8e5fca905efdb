"""The demo: a sample repository, one job up to its pull request, and sample traffic."""
