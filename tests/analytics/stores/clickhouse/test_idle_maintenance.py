"""Decided changes are completed and unneeded data is dropped, even if no views arrive anymore."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from copydesk.analytics.stores.clickhouse.connection.errors import StoreBusy
from copydesk.analytics.stores.clickhouse.folding.batches import MAX_BATCH_AGE_MS
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLeases
from copydesk.analytics.stores.report_rows import Counts
from tests.analytics.stores.clickhouse.faults import kill_at_statement
from tests.analytics.stores.conformance.test_store import log_and_fold, make_view
from tests.support.clickhouse_store import FolderClickHouseStore
from tests.support.drills import mark_drills

pytestmark = pytest.mark.deep

RETRIES: dict[str, Callable[[FolderClickHouseStore], object]] = {
    "the same again": lambda store: store.set_ai_classes("docs", {"search"}),
    "a fold": lambda store: store.fold(),
    "dropping": lambda store: store.delete_raw_views(0, []),
}


@pytest.mark.parametrize("again", mark_drills(RETRIES, default=["the same again", "a fold"]))
def test_recorded_change_of_ai_classes_is_completed_by_the_next_operation(
    store: FolderClickHouseStore, again: str
) -> None:
    log_and_fold(store, make_view(kind="search"))
    with kill_at_statement(1, is_done=False) as sent:
        store.set_ai_classes("docs", {"search"})
    assert "insert into firsts" in sent[-1]
    assert store.backlog() == 1
    RETRIES[again](store)
    assert store.backlog() == 0
    assert store.count_visitors_by_page("docs").totals == store.count_views_by_page("docs").totals == Counts(0, 1, 1)


def test_change_of_ai_classes_waits_for_the_lease_only_until_its_timeout(store: FolderClickHouseStore) -> None:
    with ShardLeases(store.main).acquire([0]), pytest.raises(StoreBusy):
        store.set_ai_classes("docs", {"search"}, timeout_seconds=0.1)


def test_old_inbox_rows_are_dropped_without_a_fold(store: FolderClickHouseStore) -> None:
    log_and_fold(store, make_view())
    store.main.clock_sql = f"({store.main.clock_sql} + {2 * MAX_BATCH_AGE_MS + 600_000})"
    store.main.now = text(store.main.clock_sql)  # type: ignore[assignment]
    store.delete_raw_views(0, [])
    assert store._cluster.reader.query("select count() from inbox") == [(0,)]
    assert store.count_visitors_by_page("docs").totals.total == 1


def test_fold_number_is_not_reused_after_the_main_database_lost_it(store: FolderClickHouseStore) -> None:
    log_and_fold(store, make_view())
    store.log_views([make_view(visitor=2)])
    with kill_at_statement(0, is_done=True):
        store.fold()
    with store.main.write() as tx:
        tx.execute(text("update view_folds set number = number - 1"))
        tx.execute(text("delete from view_batches"))
    log_and_fold(store, make_view("/a", visitor=3))
    assert [row.path for row in store.count_visitors_by_page("docs").rows] == ["/", "/a"]
    assert store.count_visitors_by_page("docs").totals.total == 2
    assert store._cluster.reader.query("select count() from staged") == [(0,)]
