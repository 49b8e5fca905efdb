"""The embedded store: one DuckDB file, opened by one process."""

from copydesk.analytics.stores.duckdb.store import DuckStore

__all__ = ["DuckStore"]
