"""Automations that files of the documentation repository define."""
