"""The store for several machines: ClickHouse has the views, the main database coordinates the processes."""

from copydesk.analytics.stores.clickhouse.store import ClickHouseStore

__all__ = ["ClickHouseStore"]
