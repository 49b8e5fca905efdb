"""A page view becomes a number: collect ▶ classify ▶ identify ▶ log ▶ fold ▶ report. A dropped one keeps its reason."""
