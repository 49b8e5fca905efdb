"""The embedded store: a DuckDB file that one process opens."""

from copydesk.analytics.stores.duckdb.store import DuckStore

__all__ = ["DuckStore"]
