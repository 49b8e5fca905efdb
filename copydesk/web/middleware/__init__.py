"""Middleware that runs before routing: authentication, the fast path, pacing and metrics."""
