"""Pages of visitors: figures, chart and tables."""
