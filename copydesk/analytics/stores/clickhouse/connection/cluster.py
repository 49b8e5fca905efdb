"""The servers behind one address: where reports are read, and the shards that views are written to and folded on."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby

from copydesk.analytics.stores.clickhouse.connection.errors import NoSuchCluster
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.connection.url import Address
from copydesk.analytics.stores.clickhouse.sql_files import sql

HOSTS = """
    select shard_num, host_name from system.clusters
    where cluster = {cluster:String} order by shard_num, replica_num
"""
SPREAD = {
    "inbox": "visitor", "views": "visitor", "visits": "visitor", "events": "id", "scopes": "scope", "firsts": "scope",
    "counts": "scope", "schema": "number",
}  # fmt: skip
"""The tables that are read across all shards, and by what their rows are spread. A visitor is on one shard alone, so
that what the shards count adds up."""
CREATE = re.compile(r"create table if not exists (\w+)")
ENGINE = re.compile(r"engine = (\w*MergeTree)")


class Cluster:
    """Of one server, which is reader and only shard. Nothing is connected before it is used."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.reader = Node([address])
        self.admin = Node([address.at(address.host, "system")])

    @cached_property
    def shards(self) -> Sequence[Node]:
        return [self.reader]

    def definitions(self) -> Iterator[str]:
        yield f"create database if not exists {self.address.database}"
        yield from tables(self.address.database)

    def make(self) -> None:
        for statement in self.definitions():
            self.admin.act(statement)

    def catch_up(self, shard: Node) -> Node:
        """What a shard is counted on: of its replicas one alone, which has what the others have."""
        return shard

    def close(self) -> None:
        for node in {self.reader, self.admin, *self.__dict__.get("shards", ())}:
            node.close()


class Sharded(Cluster):
    """Of many: every server has two databases, one with its own tables and one whose tables read those of all."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._own = f"{address.database}_shard"

    @cached_property
    def shards(self) -> Sequence[Node]:
        found = self.admin.ask(HOSTS, {"cluster": self.address.cluster})
        if not found:
            raise NoSuchCluster
        return [self._shard([host for _, host in replicas]) for _, replicas in groupby(found, key=lambda row: row[0])]

    def definitions(self) -> Iterator[str]:
        name, cluster = self.address.database, self.address.cluster
        for database in (name, self._own):
            yield f"create database if not exists {database} on cluster '{cluster}'"
        for statement in tables(self._own, f" on cluster '{cluster}'"):
            yield ENGINE.sub(r"engine = Replicated\1", statement)
        for table, key in SPREAD.items():
            yield (
                f"create table if not exists {name}.{table} on cluster '{cluster}' as {self._own}.{table}"
                f" engine = Distributed('{cluster}', '{self._own}', '{table}', {key})"
            )

    def catch_up(self, shard: Node) -> Node:
        one = shard.pinned()
        for table in own_tables():
            one.act(f"system sync replica {table}")
        return one

    def _shard(self, hosts: Sequence[str]) -> Node:
        """What is written is on every replica, as any may be read: an event that one lacks would be new there."""
        everywhere = {"insert_quorum": len(hosts), "mutations_sync": 2}
        return Node([self.address.at(host, self._own) for host in hosts], everywhere)


def cluster_at(address: Address) -> Cluster:
    return Sharded(address) if address.cluster else Cluster(address)


def own_tables() -> Sequence[str]:
    """The names of those that a shard has."""
    return CREATE.findall(sql("schema"))


def tables(database: str, where: str = "") -> Iterator[str]:
    """The statements that make a shard's own tables."""
    for statement in sql("schema").split(";\n"):
        if statement.strip():
            yield CREATE.sub(rf"create table if not exists {database}.\1{where}", statement)
