"""Webhooks: those that forges send to Copydesk, and the API of those that Copydesk sends."""
