"""Webhooks of forges: signatures, payloads, and their effects on jobs."""
