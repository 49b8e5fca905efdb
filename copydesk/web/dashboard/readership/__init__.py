"""The analytics pages: tiles, chart and tables of visitors, agents and feedback."""
