"""Builders of responses: HTML, CSV, ETags, static files and validation errors."""
