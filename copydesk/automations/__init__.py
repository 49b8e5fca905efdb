"""Automations: saved instructions with a trigger. Each run of one is a job."""
