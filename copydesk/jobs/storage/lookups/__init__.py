"""Finds jobs: by filters and text, and by the pages that they changed."""
