"""Moves the stored data to PostgreSQL and ClickHouse."""
