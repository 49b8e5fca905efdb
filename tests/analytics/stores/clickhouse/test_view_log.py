"""Logging stores a view once or not at all, from any process at any time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import text

from copydesk.analytics.stores.base import LogResult
from copydesk.analytics.stores.clickhouse.folding.batches import MAX_BATCH_AGE_MS, BatchTooLate, ViewBatches
from copydesk.analytics.stores.clickhouse.view_log import ViewLog
from tests.analytics.stores.clickhouse.faults import kill_at_statement
from tests.analytics.stores.conformance.test_store import make_view
from tests.support.clickhouse_store import FolderClickHouseStore

pytestmark = pytest.mark.deep


def run_concurrently(*acts: Callable[[], LogResult]) -> list[LogResult]:
    barrier = threading.Barrier(len(acts))

    def act(wanted: Callable[[], LogResult]) -> LogResult:
        barrier.wait()
        return wanted()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(act, acts))


def test_event_sent_to_two_servers_at_once_is_stored_once(store: FolderClickHouseStore) -> None:
    for round_ in range(3):
        views = [make_view(event=round_ * 10 + number, visitor=number + 1) for number in range(10)]
        logged = run_concurrently(*[partial(store.log_views, views)] * 4)
        assert sum(one.accepted for one in logged) == 10
        assert all(one.accepted + len(one.duplicates) == 10 for one in logged)
    assert store.fold() == 30
    assert store.count_views_by_page("docs").totals.total == 30


@pytest.mark.parametrize("is_done", [False, True])
def test_views_can_be_resent_after_the_server_died_unanswered(store: FolderClickHouseStore, is_done: bool) -> None:
    store.backlog()
    store.log_views([make_view(event=7)])
    with kill_at_statement(0, is_done):
        store.log_views([make_view(event=8)])
    assert store.backlog() == 1
    assert store.log_views([make_view(event=8)]) == LogResult(1)
    assert store.fold() == 2


def test_write_delayed_beyond_the_limit_is_refused(store: FolderClickHouseStore) -> None:
    class Late(ViewBatches):
        def begin_batch(self) -> tuple[int, object]:  # type: ignore[override]
            batch, known = super().begin_batch()
            return batch - (MAX_BATCH_AGE_MS + 1000 << 80), known

    with pytest.raises(BatchTooLate):
        ViewLog(store._cluster, Late(store.main)).write([make_view()])
    assert (store.backlog(), store.fold()) == (0, 0)


def test_folded_and_aborted_batches_are_dropped_from_the_inbox(store: FolderClickHouseStore) -> None:
    store.log_views([make_view()])
    with kill_at_statement(0, is_done=True):
        store.log_views([make_view()])
    store.fold()
    inbox = "select count() from inbox"
    assert store._cluster.reader.query(inbox) == [(2,)]
    later = str(2 * MAX_BATCH_AGE_MS + 600_000)
    store.main.clock_sql = f"({store.main.clock_sql} + {later})"
    store.main.now = text(store.main.clock_sql)  # type: ignore[assignment]
    store.log_views([make_view(visitor=2)])
    store.fold()
    assert store._cluster.reader.query(inbox) == [(1,)]
    assert store.count_visitors_by_page("docs").totals.total == 2
