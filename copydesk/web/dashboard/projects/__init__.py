"""Pages of projects: list, first steps, settings, keys."""
