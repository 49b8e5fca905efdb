"""Creates and upgrades the tables in ClickHouse, under an advisory lock of the main database."""

from collections.abc import Callable

from sqlalchemy import text

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.sql_files import load_sql
from copydesk.analytics.stores.errors import StoreSchemaNewer
from copydesk.core.db.advisory_locks import AdvisoryLock, acquire_lock
from copydesk.core.db.database import Database

CLICKHOUSE_SCHEMA_VERSION = 5
FIRST_VERSION_WITH_EVENTS = 3
"""From this version on, raw views have their event."""
FIRST_VERSION_WITH_MISSING = 4
"""From this version on, views may be requests for missing pages."""
MISSING_COLUMNS = {
    "inbox": ("missing UInt8", "lost UInt64 materialized sipHash64(project, 'missing', path)"),
    "views": ("missing UInt8",),
    "corrected_views": ("missing UInt8", "lost UInt64 materialized sipHash64(project, 'missing', path)"),
}
FIRST_VERSION_WITH_SOURCES = 5
"""From this version on, views have their source."""
SOURCE_COLUMNS = {
    "inbox": ("source String", "source_kind UInt8"),
    "views": ("source LowCardinality(String)", "source_kind UInt8"),
    "corrected_views": ("source LowCardinality(String)", "source_kind UInt8"),
}
VISITED_COLUMN = "visited Array(Tuple(UInt8, UInt64, String)) alias {expression}"
SELECT_SCHEMA_TABLE = "select 1 from system.tables where database = {database:String} and name = 'schema'"
SELECT_STAGED_TTL = """
    select 1 from system.tables
    where database = currentDatabase() and name = 'staged' and engine_full like '% TTL %'
"""
"""In schema version 1, staged rows expired after a week, even if their plan was committed and not yet applied."""


def upgrade_schema(cluster: Cluster, database: Database, count_sources: Callable[[Callable[[], bool]], None]) -> None:
    """Upgrades the schema if needed; otherwise costs only reading the version.

    `count_sources` counts where the stored views came from, unless its argument says that another process has done it.
    If it is interrupted, the next upgrade starts it again. Raises StoreSchemaNewer if a newer version of Copydesk
    created the schema.
    """
    if _is_current(cluster):
        return
    with database.write() as tx, database.without_statement_timeout(tx):
        if not database.is_sqlite:
            tx.execute(text("set local idle_in_transaction_session_timeout = 0"))
        acquire_lock(database, tx, AdvisoryLock.PREPARE_CLICKHOUSE)
        version = _read_schema_version(cluster)
        needs_sources = 0 < version < FIRST_VERSION_WITH_SOURCES
        if version != CLICKHOUSE_SCHEMA_VERSION:
            _change_tables(cluster, version)
        if version != CLICKHOUSE_SCHEMA_VERSION and not needs_sources:
            _store_version(cluster)
    if needs_sources:  # outside the transaction, because it writes to the main database, and SQLite has one writer
        count_sources(lambda: _is_current(cluster))
        _store_version(cluster)


def _change_tables(cluster: Cluster, version: int) -> None:
    cluster.create_tables()
    if 0 < version < FIRST_VERSION_WITH_EVENTS:
        cluster.add_column("views", "event Nullable(UInt64)")
    if 0 < version < FIRST_VERSION_WITH_MISSING:
        for table, columns in MISSING_COLUMNS.items():
            for column in columns:
                cluster.add_column(table, column)
    if 0 < version < FIRST_VERSION_WITH_SOURCES:
        for table, columns in SOURCE_COLUMNS.items():
            for column in (*columns, VISITED_COLUMN.format(expression=load_sql("visited"))):
                cluster.add_column(table, column)
    for shard in cluster.shards:
        if shard.query(SELECT_STAGED_TTL):
            shard.execute("alter table staged remove ttl")


def _store_version(cluster: Cluster) -> None:
    for shard in cluster.shards:
        shard.execute("insert into schema select {number:UInt32}", {"number": CLICKHOUSE_SCHEMA_VERSION})


def _is_current(cluster: Cluster) -> bool:
    return _read_schema_version(cluster) == CLICKHOUSE_SCHEMA_VERSION


def _read_schema_version(cluster: Cluster) -> int:
    if not cluster.admin.query(SELECT_SCHEMA_TABLE, {"database": cluster.address.database}):
        return 0
    [(version,)] = cluster.reader.query("select max(number) from schema")
    if version > CLICKHOUSE_SCHEMA_VERSION:
        raise StoreSchemaNewer
    return int(version)
