"""Rate limits, counted in memory or in the database."""
