"""Visitor analytics. A page view passes these stages: collect ▶ classify ▶ identify ▶ log ▶ fold ▶ report.

Every view that is not counted has a reason.
"""
