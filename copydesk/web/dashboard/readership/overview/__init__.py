"""The first analytics page: totals with their change, the chart, and what changed the documentation."""
