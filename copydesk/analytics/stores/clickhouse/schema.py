"""The tables in ClickHouse: made under a lock of the main database, and refused when a newer version made them."""

from sqlalchemy import text

from copydesk.analytics.stores.base import StoreNewer
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.core.db.advisory_locks import AdvisoryLock, take_lock
from copydesk.core.db.database import Database

NUMBER = 2
IS_MADE = "select 1 from system.tables where database = {database:String} and name = 'schema'"
EXPIRES = """
    select 1 from system.tables
    where database = currentDatabase() and name = 'staged' and engine_full like '% TTL %'
"""
"""In stores of number 1, what was staged was gone after a week, though it may have been decided."""


def prepare(cluster: Cluster, database: Database) -> None:
    """Costs one look-up when there is nothing to do."""
    if _number(cluster) == NUMBER:
        return
    with database.write() as tx, database.unhurried(tx):
        if not database.is_sqlite:
            tx.execute(text("set local idle_in_transaction_session_timeout = 0"))
        take_lock(database, tx, AdvisoryLock.PREPARE_CLICKHOUSE)
        if _number(cluster) != NUMBER:
            cluster.make()
            for shard in cluster.shards:
                if shard.ask(EXPIRES):
                    shard.act("alter table staged remove ttl")
                shard.act("insert into schema select {number:UInt32}", {"number": NUMBER})


def _number(cluster: Cluster) -> int:
    if not cluster.admin.ask(IS_MADE, {"database": cluster.address.database}):
        return 0
    [(number,)] = cluster.reader.ask("select max(number) from schema")
    if number > NUMBER:
        raise StoreNewer
    return int(number)
