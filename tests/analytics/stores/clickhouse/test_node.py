"""A node: several replicas of which one may be unavailable, many threads, and proxies before ClickHouse."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.httputil import all_managers

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection import circuit_breaker as trying
from copydesk.analytics.stores.clickhouse.connection import node
from copydesk.analytics.stores.clickhouse.connection.circuit_breaker import CircuitBreaker
from copydesk.analytics.stores.clickhouse.connection.cluster import ShardedCluster
from copydesk.analytics.stores.clickhouse.connection.node import DEDUPLICATION_SETTINGS, MAX_BATCHES_PER_STATEMENT, Node
from copydesk.analytics.stores.clickhouse.connection.url import ClickHouseAddress, parse_clickhouse_url
from copydesk.core.errors import StoreUnavailable
from tests.support.clickhouse import clickhouse_server, new_database
from tests.support.clickhouse_store import main_database

NOBODY = "127.0.0.2"
"""An address without a listener."""
TOO_MUCH_FOR = "select length(groupArray(number)) from numbers(if(currentDatabase() = '{}', 10000000, 1))"
LITTLE = "settings max_memory_usage = 20000000"
CLUSTER = f"""
    <clickhouse><remote_servers><main>
      <shard>
        <replica><host>{NOBODY}</host><port>9000</port></replica>
        <replica><host>127.0.0.1</host><port>9000</port></replica>
      </shard>
      <shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard>
    </main></remote_servers></clickhouse>
"""


def available_address() -> ClickHouseAddress:
    return parse_clickhouse_url(new_database())


def unavailable_address(address: ClickHouseAddress) -> ClickHouseAddress:
    return address.with_host(NOBODY, address.database)


def run_concurrently(act: Callable[[], Any], callers: int) -> list[Any]:
    """Returns the result or error of each of several concurrent callers."""
    start = threading.Barrier(callers)

    def call(_: int) -> Any:
        start.wait()
        try:
            return act()
        except StoreUnavailable as error:
            return error

    with ThreadPoolExecutor(callers) as threads:
        return list(threads.map(call, range(callers)))


@pytest.mark.deep
def test_writes_wait_for_all_replicas_of_a_shard(tmp_path: Path) -> None:
    config = tmp_path / "config.xml"
    config.write_text(CLUSTER)
    with clickhouse_server(f"config-file={config}") as server:
        server.run_query("create database desk_shard")
        cluster = ShardedCluster(parse_clickhouse_url(server.url("desk", options="?cluster=main")))
        asked = "select getSetting('insert_quorum'), getSetting('mutations_sync')"
        assert [list(shard.query(asked)) for shard in cluster.shards] == [[(2, 2)], [(1, 2)]]
        cluster.close()


@pytest.mark.deep
def test_pinned_node_stays_with_its_replica() -> None:
    first, second = available_address(), available_address()
    shared = Node([first, second])
    one = shared.pin_replica()
    asked = f"{TOO_MUCH_FOR.format(first.database)} {LITTLE}"
    assert shared.query(asked) == [(1,)]
    assert shared.query("select currentDatabase()") == [(second.database,)]
    with pytest.raises(StoreUnavailable):
        one.query(asked)
    assert one.query("select currentDatabase()") == [(first.database,)]


@pytest.mark.deep
def test_unavailable_replica_is_skipped_when_pinning() -> None:
    address = available_address()
    assert Node([unavailable_address(address), address]).pin_replica().query("select 1") == [(1,)]


@pytest.mark.deep
def test_concurrent_failures_switch_to_the_next_replica_once() -> None:
    first, second = available_address(), available_address()
    shared = Node([first, second])
    shared.query("select 1")
    asked = f"{TOO_MUCH_FOR.format(first.database)} where (select sleep(0.2)) = 0 {LITTLE}"
    assert run_concurrently(lambda: shared.query(asked), callers=4) == [[(1,)]] * 4


def test_concurrent_callers_wait_for_a_silent_server_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "SHORT_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(
        trying, "COOL_DOWN_SECONDS", 600
    )  # so that all callers come before its end and share the first failure
    main = main_database(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = ClickHouseStore(f"clickhouse://127.0.0.1:{silent.getsockname()[1]}/desk", main)
        silent.settimeout(0)
        answers = run_concurrently(lambda: store.count_visitors_by_page("docs"), callers=4)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 4
        with pytest.raises(StoreUnavailable):
            store.ping()
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # only one caller opened a connection
            silent.accept()
        store.close()
    main.close()


@pytest.mark.deep
def test_silent_replica_is_skipped_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "SHORT_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(node, "RETRY_WINDOW_SECONDS", 0)
    address = available_address()
    with socket.create_server((NOBODY, address.port)):
        shared = Node([unavailable_address(address), address])
        with pytest.raises(StoreUnavailable):
            shared.query("select 1")
        assert shared.query("select 1") == [(1,)]


def test_slow_failure_fails_all_waiting_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "COOL_DOWN_SECONDS", 600)
    shared, tries = CircuitBreaker(), count()

    def attempt() -> None:
        with shared.guard():
            next(tries)
            time.sleep(0.6)
            raise StoreUnavailable

    assert [type(answer) for answer in run_concurrently(attempt, callers=3)] == [StoreUnavailable] * 3
    assert next(tries) == 1


def test_immediate_failure_is_retried() -> None:
    shared = CircuitBreaker()
    with pytest.raises(StoreUnavailable), shared.guard():
        raise StoreUnavailable
    with shared.guard():
        pass


@pytest.mark.deep
def test_calls_to_an_unavailable_server_leak_no_memory() -> None:
    before = len(all_managers)
    absent = Node([unavailable_address(available_address())])
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            absent.query("select 1")
    assert len(all_managers) == before + 1
    absent.close()
    assert len(all_managers) == before


@pytest.mark.deep
def test_largest_statement_fits_through_a_load_balancer() -> None:
    given = {"batches": [2**127 + number for number in range(MAX_BATCHES_PER_STATEMENT)]}
    one = Node([available_address()])
    one.execute("create table ids (id UInt128) engine = MergeTree order by id")
    one.execute("insert into ids select arrayJoin({batches:Array(UInt128)})", given, dedup_token="1")
    assert one.query("select count() from ids where id in {batches:Array(UInt128)}", given) == [
        (MAX_BATCHES_PER_STATEMENT,)
    ]


@pytest.mark.deep
def test_unordered_insert_is_deduplicated_by_its_token() -> None:
    one = Node([available_address()])
    one.execute(
        "create table n (n UInt64) engine = MergeTree order by n settings non_replicated_deduplication_window = 10"
    )
    for _ in range(2):
        one.execute("insert into n select number % 7 from numbers(100) group by 1", dedup_token="1")
    assert one.query("select count() from n") == [(7,)]


@pytest.mark.deep
def test_clickhouse_knows_every_insert_setting() -> None:
    known = Node([available_address()]).query(
        "select name from system.settings where name in {names:Array(String)}", {"names": list(DEDUPLICATION_SETTINGS)}
    )
    assert {name for (name,) in known} == set(DEDUPLICATION_SETTINGS)
