"""Measures what the delivery of webhooks costs."""
