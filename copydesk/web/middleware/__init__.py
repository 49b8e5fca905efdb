"""Middleware that runs before routing: authentication, limits, the fast path for views, and metrics."""
