"""Measures the cost of a job in one run:  creation ▶ edits ▶ plain git ▶ engines ▶ footprint ▶ report."""
