"""The automation pages: list, form and detail."""
