"""Limits on clients before authentication: connections, headers, bodies and timeouts."""
