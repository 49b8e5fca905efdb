"""The project pages: list, first steps, settings and API keys."""
