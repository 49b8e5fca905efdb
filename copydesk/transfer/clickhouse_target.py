"""Checks that the ClickHouse database that receives the views is empty."""

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.transfer.errors import MigrationFailed

MOVED_TABLES = ("scopes", "events", "counts", "visits", "views")
"""The tables that a move fills. All others are derived from them."""
EXISTING_TABLES = "select name from system.tables where database = {database:String}"


def require_empty_target(cluster: Cluster) -> None:
    """Raises MigrationFailed if the target holds views."""
    if not is_target_empty(cluster):
        raise MigrationFailed("The ClickHouse database already contains views. Use an empty database.")


def is_target_empty(cluster: Cluster) -> bool:
    """Returns whether the target holds no rows; its tables may or may not exist yet."""
    existing = {name for (name,) in cluster.admin.query(EXISTING_TABLES, {"database": cluster.address.database})}
    queries = [f"select 1 from {table} limit 1" for table in MOVED_TABLES if table in existing]  # noqa: S608
    return not any(cluster.reader.query(query) for query in queries)
