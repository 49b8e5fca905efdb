"""Builds responses: HTML, CSV, ETags, static files, validation errors."""
