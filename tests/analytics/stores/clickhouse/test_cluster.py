"""Several shards: visitors are spread over them, and every report equals that of a single store."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import Correction, Reclassification, Store
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.cluster import (
    SHARDING_COLUMNS,
    Cluster,
    ShardedCluster,
    build_table_statements,
    list_shard_tables,
)
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.connection.url import ClickHouseAddress, parse_clickhouse_url
from tests.analytics.stores.clickhouse.test_crash import assert_same_reports, fill_store
from tests.analytics.stores.conformance.test_exact import run_state_machine
from tests.analytics.stores.conformance.test_store import make_view
from tests.support.clickhouse import new_database, run_query
from tests.support.clickhouse_store import URL_FILE_NAME, FolderClickHouseStore, main_database

pytestmark = pytest.mark.deep


class TwoShards(Cluster):
    """Two databases of one engine, read through Merge tables in place of a cluster's Distributed tables.

    Exercises everything that a shard does, except the network and replication.
    """

    def __init__(self, address: ClickHouseAddress) -> None:
        super().__init__(address)
        self._names = [f"{address.database}_{shard}" for shard in (1, 2)]

    @cached_property
    def shards(self) -> Sequence[Node]:
        return [Node([self.address.with_host(self.address.host, name)]) for name in self._names]

    def schema_statements(self) -> Iterator[str]:
        for name in self._names:
            yield f"create database if not exists {name}"
            yield from build_table_statements(name)
        for table in SHARDING_COLUMNS:
            yield (
                f"create table if not exists {self.address.database}.{table} as {self._names[0]}.{table}"
                f" engine = Merge(REGEXP('^{self.address.database}_[12]$'), '^{table}$')"
            )


class TwoShardStore(ClickHouseStore):
    def __init__(self, folder: Path) -> None:
        named = folder / "clickhouse.url"
        if not named.exists():
            named.write_text(new_database())
        self.main = main_database(folder)
        super().__init__("", self.main, TwoShards(parse_clickhouse_url(named.read_text())))

    def close(self) -> None:
        super().close()
        self.main.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TwoShardStore]:
    opened = TwoShardStore(tmp_path)
    yield opened
    opened.close()


def test_two_shards_answer_as_one_and_their_backup_restores_into_one(store: TwoShardStore, tmp_path: Path) -> None:
    model = fill_store(store)
    assert store.fold() == model.fold()
    assert_same_reports(store, model)
    assert [shard.query("select count() > 0 from visits") for shard in store._cluster.shards] == [[(1,)], [(1,)]]
    store.forget_visitor("docs", 1)
    model.forget_visitor("docs", 1)
    assert_same_reports(store, model)
    change = Reclassification("rule", "", "", "human", "rule", "Reader", "Example", "assistant")
    for corrected in (store, model):
        assert corrected.withdraw_views("docs", [2, 3]) == 2
        assert corrected.reclassify_views("docs", [change], "2") == Correction(4)
    assert_same_reports(store, model)
    store.back_up(tmp_path / "copy")
    (folder := tmp_path / "loaded").mkdir()
    loaded = FolderClickHouseStore(folder, tmp_path / "copy")
    assert_same_reports(loaded, model)
    assert loaded.withdraw_views("docs", [1, 4]) == model.withdraw_views("docs", [1, 4]) == 2
    assert_same_reports(loaded, model)
    loaded.close()
    (folder / URL_FILE_NAME).unlink()


class PinnedCluster(Cluster):
    """A shard whose replicas are all unavailable, except the one that it is synchronized with."""

    @cached_property
    def shards(self) -> Sequence[Node]:
        return [Node([ClickHouseAddress("127.0.0.1", 1, "", "", "")])]

    def pin_synced_replica(self, shard: Node) -> Node:
        return self.reader


def test_folding_uses_only_the_replica_that_caught_up(tmp_path: Path) -> None:
    main, address = main_database(tmp_path), parse_clickhouse_url(new_database())
    whole, pinned = ClickHouseStore("", main, Cluster(address)), ClickHouseStore("", main, PinnedCluster(address))
    model = fill_store(whole)
    assert pinned.fold() == model.fold()
    pinned.set_ai_classes("docs", {"search"})
    model.ai["docs"] = frozenset({"search"})
    pinned.back_up(tmp_path / "copy")
    pinned.forget_project("docs")
    pinned.forget_project("other")
    pinned.restore(tmp_path / "copy")
    assert_same_reports(whole, model)
    for closed in (whole, pinned, main):
        closed.close()


def test_duplicate_event_is_found_on_any_shard(store: TwoShardStore) -> None:
    assert store.log_views([make_view(event=5, visitor=1)]).accepted == 1
    assert store.log_views([make_view(event=5, visitor=2)]).duplicates == (0,)
    store.fold()
    assert store.log_views([make_view(event=5, visitor=2)]).duplicates == (0,)


@pytest.mark.drill
def test_reports_of_two_shards_stay_exact_under_random_operations() -> None:
    def open_store(folder: Path) -> Store:
        return TwoShardStore(folder)

    run_state_machine(open_store, examples=20, steps=25)


def test_clickhouse_parses_every_cluster_definition() -> None:
    cluster = ShardedCluster(parse_clickhouse_url("clickhouse://host/desk?cluster=main"))
    definitions = list(cluster.schema_statements())
    assert len(definitions) == 2 + len(list_shard_tables()) + len(SHARDING_COLUMNS)
    for definition in definitions:
        quoted = definition.replace("\\", "\\\\").replace("'", "\\'")
        read = run_query(f"select formatQuery('{quoted}')")
        assert "ON CLUSTER main" in read
        assert ("Replicated" in read) == ("desk_shard." in read and "Distributed" not in read)
    for table in list_shard_tables():
        assert run_query(f"select formatQuery('system sync replica {table}')")
