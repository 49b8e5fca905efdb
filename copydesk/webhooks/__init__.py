"""Webhooks: tells other services of a project's events, at least once and in order per job."""
