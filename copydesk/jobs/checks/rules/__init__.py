"""The rules of the checks: links, includes and navigation."""
