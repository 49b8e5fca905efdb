"""A node: several replicas of which one may be away, many threads, and whatever stands between it and ClickHouse."""

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
from copydesk.analytics.stores.clickhouse.connection.circuit_breaker import Trying
from copydesk.analytics.stores.clickhouse.connection.cluster import Sharded
from copydesk.analytics.stores.clickhouse.connection.node import MOST_BATCHES, ONCE, Node
from copydesk.analytics.stores.clickhouse.connection.url import Address, address_of
from copydesk.core.errors import StoreDown
from tests.support.clickhouse import clickhouse_server, new_database
from tests.support.clickhouse_store import main_database

NOBODY = "127.0.0.2"
"""Where nothing listens."""
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


def there() -> Address:
    return address_of(new_database())


def away(address: Address) -> Address:
    return address.at(NOBODY, address.database)


def together(act: Callable[[], Any], callers: int) -> list[Any]:
    """What each of the callers gets who begin at once: an answer or an error."""
    start = threading.Barrier(callers)

    def call(_: int) -> Any:
        start.wait()
        try:
            return act()
        except StoreDown as error:
            return error

    with ThreadPoolExecutor(callers) as threads:
        return list(threads.map(call, range(callers)))


def test_what_a_shard_writes_waits_for_all_its_replicas(tmp_path: Path) -> None:
    config = tmp_path / "config.xml"
    config.write_text(CLUSTER)
    with clickhouse_server(f"config-file={config}") as server:
        server.ask("create database desk_shard")
        cluster = Sharded(address_of(server.url("desk", options="?cluster=main")))
        asked = "select getSetting('insert_quorum'), getSetting('mutations_sync')"
        assert [list(shard.ask(asked)) for shard in cluster.shards] == [[(2, 2)], [(1, 2)]]
        cluster.close()


def test_whoever_counts_stays_with_one_replica_while_others_turn_away() -> None:
    first, second = there(), there()
    shared = Node([first, second])
    one = shared.pinned()
    asked = f"{TOO_MUCH_FOR.format(first.database)} {LITTLE}"
    assert shared.ask(asked) == [(1,)]
    assert shared.ask("select currentDatabase()") == [(second.database,)]
    with pytest.raises(StoreDown):
        one.ask(asked)
    assert one.ask("select currentDatabase()") == [(first.database,)]


def test_a_replica_that_is_away_is_left_before_one_is_chosen() -> None:
    address = there()
    assert Node([away(address), address]).pinned().ask("select 1") == [(1,)]


def test_threads_that_fail_together_turn_to_the_next_replica_once() -> None:
    first, second = there(), there()
    shared = Node([first, second])
    shared.ask("select 1")
    asked = f"{TOO_MUCH_FOR.format(first.database)} where (select sleep(0.2)) = 0 {LITTLE}"
    assert together(lambda: shared.ask(asked), callers=4) == [[(1,)]] * 4


def test_a_silent_server_is_waited_for_once_however_many_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "QUICK_SECONDS", 1)
    monkeypatch.setattr(trying, "REST_SECONDS", 600)  # so that nobody comes too late to profit by the others' failure
    main = main_database(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = ClickHouseStore(f"clickhouse://127.0.0.1:{silent.getsockname()[1]}/desk", main)
        silent.settimeout(0)
        answers = together(lambda: store.visitors("docs"), callers=4)
        assert [type(answer) for answer in answers] == [StoreDown] * 4
        with pytest.raises(StoreDown):
            store.ping()
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # only one of them ever called
            silent.accept()
        store.close()
    main.close()


def test_a_replica_that_is_silent_is_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "QUICK_SECONDS", 1)
    monkeypatch.setattr(node, "SOON_SECONDS", 0)
    address = there()
    with socket.create_server((NOBODY, address.port)):
        shared = Node([away(address), address])
        with pytest.raises(StoreDown):
            shared.ask("select 1")
        assert shared.ask("select 1") == [(1,)]


def test_what_took_long_and_failed_fails_for_all_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "REST_SECONDS", 600)
    shared, tries = Trying(), count()

    def attempt() -> None:
        with shared.alone():
            next(tries)
            time.sleep(0.6)
            raise StoreDown

    assert [type(answer) for answer in together(attempt, callers=3)] == [StoreDown] * 3
    assert next(tries) == 1


def test_what_failed_at_once_is_tried_again() -> None:
    shared = Trying()
    with pytest.raises(StoreDown), shared.alone():
        raise StoreDown
    with shared.alone():
        pass


def test_a_server_that_is_away_costs_no_memory_for_each_call() -> None:
    before = len(all_managers)
    absent = Node([away(there())])
    for _ in range(5):
        with pytest.raises(StoreDown):
            absent.ask("select 1")
    assert len(all_managers) == before + 1
    absent.close()
    assert len(all_managers) == before


def test_as_many_batches_as_a_statement_names_pass_through_a_load_balancer() -> None:
    given = {"batches": [2**127 + number for number in range(MOST_BATCHES)]}
    one = Node([there()])
    one.act("create table ids (id UInt128) engine = MergeTree order by id")
    one.act("insert into ids select arrayJoin({batches:Array(UInt128)})", given, token="1")
    assert one.ask("select count() from ids where id in {batches:Array(UInt128)}", given) == [(MOST_BATCHES,)]


def test_an_insert_without_an_order_is_done_once_under_a_token() -> None:
    one = Node([there()])
    one.act("create table n (n UInt64) engine = MergeTree order by n settings non_replicated_deduplication_window = 10")
    for _ in range(2):
        one.act("insert into n select number % 7 from numbers(100) group by 1", token="1")
    assert one.ask("select count() from n") == [(7,)]


def test_the_engine_knows_every_setting_of_an_insert() -> None:
    known = Node([there()]).ask(
        "select name from system.settings where name in {names:Array(String)}", {"names": list(ONCE)}
    )
    assert {name for (name,) in known} == set(ONCE)
