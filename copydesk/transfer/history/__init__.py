"""Reads the history that other analytics tools export: Plausible and Umami."""
