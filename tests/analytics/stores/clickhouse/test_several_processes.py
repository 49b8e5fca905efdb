"""Several processes log and fold at once, some of them are killed: no view is lost or counted twice."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.folding.shard_lease import LEASE_MS
from copydesk.core.clock import SECOND
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from tests.analytics.stores.clickhouse.test_crash import with_row_list
from tests.analytics.stores.clickhouse.writer import EVENTS, view_for_event
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.support import clickhouse, postgres

pytestmark = pytest.mark.deep


def start_writer(url: str, main_url: str, seed: int, views: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.analytics.stores.clickhouse.writer", url, main_url, str(seed), str(views)],
        cwd=clickhouse.ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def fold_and_open(url: str, main_url: str) -> tuple[ClickHouseStore, Database]:
    database = Database(main_url)
    migrate(database)
    return ClickHouseStore(url, database), database


def assert_exact(store: ClickHouseStore, events: set[int]) -> None:
    model = ReferenceStore()
    model.log_views([view_for_event(event) for event in sorted(events)])
    model.fold()
    assert with_row_list(store.count_visitors_by_page("docs")) == with_row_list(
        model.count_visitors_by_page("docs", ALL_DAYS, 50, 0)
    )
    assert with_row_list(store.count_views_by_page("docs")) == with_row_list(
        model.count_views_by_page("docs", ALL_DAYS, 50, 0)
    )


def find_known_events(store: ClickHouseStore) -> set[int]:
    """Finds the events that a store has logged: it reports them as duplicates."""
    logged = store.log_views([view_for_event(event) for event in range(EVENTS)])
    return set(logged.duplicates)


def parse_acknowledged(lines: Iterable[str]) -> list[int]:
    return [int(event) for line in lines if line.endswith("\n") for event in line.split()]


@pytest.mark.drill
def test_two_processes_log_and_fold_concurrently_on_a_new_store(tmp_path: Path) -> None:
    url, main_url = clickhouse.new_database(), f"sqlite:///{tmp_path / 'copydesk.db'}"
    both = [start_writer(url, main_url, seed, 400) for seed in (1, 2)]
    said = [
        event for process in both for event in parse_acknowledged(process.communicate(timeout=120)[0].splitlines(True))
    ]
    store, database = fold_and_open(url, main_url)
    assert len(said) == len(set(said)) == store.count_views_by_page("docs").totals.total
    assert find_known_events(store) == set(said)
    assert_exact(store, set(said))
    store.close()
    database.close()


@pytest.mark.drill
def test_killed_processes_lose_nothing_and_count_nothing_twice() -> None:
    url, main_url = clickhouse.new_database(), postgres.new_database()
    store, database = fold_and_open(url, main_url)
    chance, said = random.Random(5), []
    for seed in range(8):
        pair = [start_writer(url, main_url, 10 * seed + number, 10_000) for number in range(2)]
        for process in pair:
            assert process.stdout is not None
            said += parse_acknowledged(process.stdout.readline() for _ in range(chance.randrange(1, 12)))
        time.sleep(chance.random() / 2)
        for process in pair:
            process.send_signal(signal.SIGKILL)
            said += parse_acknowledged(process.communicate()[0].splitlines(True))
    time.sleep(LEASE_MS / SECOND + 1)
    store.fold()
    assert store.backlog() == 0
    events = find_known_events(store)
    assert len(said) == len(set(said))
    assert set(said) <= events
    assert_exact(store, events)
    store.rebuild_index()
    assert_exact(store, events)
    store.close()
    database.close()
