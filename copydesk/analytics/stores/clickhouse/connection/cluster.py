"""The servers of a ClickHouse URL: the node that reports read from, and the shards that store and fold views."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby

from copydesk.analytics.stores.clickhouse.connection.errors import ClusterNotFound
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.connection.url import ClickHouseAddress
from copydesk.analytics.stores.clickhouse.sql_files import load_sql

SELECT_REPLICA_HOSTS = """
    select shard_num, host_name from system.clusters
    where cluster = {cluster:String} order by shard_num, replica_num
"""
SHARDING_COLUMNS = {
    "inbox": "visitor", "views": "visitor", "visits": "visitor", "events": "id", "scopes": "scope", "firsts": "scope",
    "counts": "scope", "missing_referrers": "scope", "schema": "number",
}  # fmt: skip
"""The tables that are read across all shards, and their sharding columns. All visits of a visitor are on one shard, so
the shards' counts add up."""
CREATE_TABLE_PATTERN = re.compile(r"create table if not exists (\w+)")
ENGINE_PATTERN = re.compile(r"engine = (\w*MergeTree)")


class Cluster:
    """A single server, which is the reader and the only shard. Connects at the first use."""

    def __init__(self, address: ClickHouseAddress) -> None:
        self.address = address
        self.reader = Node([address])
        self.admin = Node([address.with_host(address.host, "system")])

    @cached_property
    def shards(self) -> Sequence[Node]:
        return [self.reader]

    def schema_statements(self) -> Iterator[str]:
        yield f"create database if not exists {self.address.database}"
        yield from build_table_statements(self.address.database)

    def create_tables(self) -> None:
        for statement in self.schema_statements():
            self.admin.execute(statement)

    def pin_synced_replica(self, shard: Node) -> Node:
        """Returns one replica of a shard, synchronized with the others. A fold uses only this one."""
        return shard

    def close(self) -> None:
        for node in {self.reader, self.admin, *self.__dict__.get("shards", ())}:
            node.close()


class ShardedCluster(Cluster):
    """A cluster of several servers.

    Each has two databases: one with its own tables, and one with distributed tables that read all shards.
    """

    def __init__(self, address: ClickHouseAddress) -> None:
        super().__init__(address)
        self._shard_database = f"{address.database}_shard"

    @cached_property
    def shards(self) -> Sequence[Node]:
        rows = self.admin.query(SELECT_REPLICA_HOSTS, {"cluster": self.address.cluster})
        if not rows:
            raise ClusterNotFound
        return [
            self._build_shard([host for _, host in replicas]) for _, replicas in groupby(rows, key=lambda row: row[0])
        ]

    def schema_statements(self) -> Iterator[str]:
        reader_database = self.address.database
        cluster = self.address.cluster
        for database in (reader_database, self._shard_database):
            yield f"create database if not exists {database} on cluster '{cluster}'"
        for statement in build_table_statements(self._shard_database, f" on cluster '{cluster}'"):
            yield ENGINE_PATTERN.sub(r"engine = Replicated\1", statement)
        for table, column in SHARDING_COLUMNS.items():
            yield (
                f"create table if not exists {reader_database}.{table} on cluster '{cluster}'"
                f" as {self._shard_database}.{table}"
                f" engine = Distributed('{cluster}', '{self._shard_database}', '{table}', {column})"
            )

    def pin_synced_replica(self, shard: Node) -> Node:
        replica = shard.pin_replica()
        for table in list_shard_tables():
            replica.execute(f"system sync replica {table}")
        return replica

    def _build_shard(self, hosts: Sequence[str]) -> Node:
        """Returns the node of a shard.

        Writes wait for all replicas, because any may be read: on a replica without the row, a logged event would look
        new.
        """
        settings = {"insert_quorum": len(hosts), "mutations_sync": 2}
        return Node([self.address.with_host(host, self._shard_database) for host in hosts], settings)


def build_cluster(address: ClickHouseAddress) -> Cluster:
    return ShardedCluster(address) if address.cluster else Cluster(address)


def list_shard_tables() -> Sequence[str]:
    return CREATE_TABLE_PATTERN.findall(load_sql("schema"))


def build_table_statements(database: str, on_cluster: str = "") -> Iterator[str]:
    """Yields the statements that create a shard's tables."""
    for statement in load_sql("schema").replace("$visited", load_sql("visited")).split(";\n"):
        if statement.strip():
            yield CREATE_TABLE_PATTERN.sub(rf"create table if not exists {database}.\1{on_cluster}", statement)
