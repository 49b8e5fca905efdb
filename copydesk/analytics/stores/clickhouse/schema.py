"""Creates the tables in ClickHouse, under an advisory lock of the main database."""

from sqlalchemy import text

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.errors import StoreSchemaNewer
from copydesk.core.db.advisory_locks import AdvisoryLock, acquire_lock
from copydesk.core.db.database import Database

CLICKHOUSE_SCHEMA_VERSION = 1
SELECT_SCHEMA_TABLE = "select 1 from system.tables where database = {database:String} and name = 'schema'"


def prepare_schema(cluster: Cluster, database: Database) -> None:
    """Creates the tables if they do not exist; otherwise costs only reading the version.

    If it is interrupted, the next call creates the rest. Raises StoreSchemaNewer if a newer version of Copydesk created
    the schema.
    """
    if _is_current(cluster):
        return
    with database.write() as tx, database.without_statement_timeout(tx):
        if not database.is_sqlite:
            tx.execute(text("set local idle_in_transaction_session_timeout = 0"))
        acquire_lock(database, tx, AdvisoryLock.PREPARE_CLICKHOUSE)
        if not _is_current(cluster):
            cluster.create_tables()
            _store_version(cluster)


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
