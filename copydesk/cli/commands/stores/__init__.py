"""Commands that copy or move all data."""
