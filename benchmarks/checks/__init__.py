"""Measures the checks on repositories of thousands of pages."""
