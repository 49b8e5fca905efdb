"""Receives webhooks of forges: signatures, payloads, and the changes to jobs that follow."""
