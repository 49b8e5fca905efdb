"""The store for several machines: ClickHouse holds the views, the main database what is agreed on."""

from copydesk.analytics.stores.clickhouse.store import ClickHouseStore

__all__ = ["ClickHouseStore"]
