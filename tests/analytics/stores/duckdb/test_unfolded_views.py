"""A fold counts the views that it finds in memory exactly as it would count them from the database."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import ALL_DAYS, LogResult, Reclassification
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding.visitor_index import SELECT_VIEWS
from copydesk.analytics.stores.duckdb.log.unfolded_views import MAX_VIEWS_IN_MEMORY, UnfoldedViews
from copydesk.analytics.stores.duckdb.log.view_log import ViewLog
from copydesk.analytics.stores.report_rows import Counts
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, make_view
from tests.analytics.stores.duckdb.writer import BATCH_VIEWS, SHORT_RUNS, make_batch

OTHER_VIEWS = [
    make_view(event=None, visitor=None),
    make_view("/gone")._replace(status=404),
    make_view("/a", kind="assistant")._replace(referrer="chatgpt.com"),
    make_view("/b", visitor=(1 << 63) - 1, day=65_534)._replace(referrer="www.google.co.uk"),
]
REMOVED = make_view("/removed", visitor=7, event=7)
TRAINING = make_view(kind="training", agent="X", rule="token:X")
TO_ASSISTANT = Reclassification("token:X", "X", "Example", "training", "token:X", "X", "Example", "assistant")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore(tmp_path / "a.duckdb")
    yield opened
    opened.close()


def test_views_in_memory_equal_those_in_the_database(tmp_path: Path) -> None:
    database, unfolded_views = DuckDatabase(tmp_path / "a.duckdb"), UnfoldedViews()
    log = ViewLog(database, unfolded_views=unfolded_views)
    for views in (make_batch(0), OTHER_VIEWS, make_batch(1)):
        log.write(views)
    for after, upto in ((0, 44), (0, 1), (7, 30), (20, 24), (43, 44)):
        found = unfolded_views.find(after, upto)
        with database.read() as connection:
            rows = connection.execute(f"{SELECT_VIEWS} where seq > {after} and seq <= {upto} order by seq").fetchnumpy()
        assert found is not None
        for name, column in rows.items():
            kept = getattr(found, name)
            np.testing.assert_array_equal(kept, column)
            assert kept.dtype == column.dtype
    database.close()


def test_views_that_are_not_all_in_memory_are_not_found(tmp_path: Path) -> None:
    database, unfolded_views = DuckDatabase(tmp_path / "a.duckdb"), UnfoldedViews(max_views=50)
    log = ViewLog(database, unfolded_views=unfolded_views)

    def is_found(after: int, upto: int) -> bool:
        return unfolded_views.find(after, upto) is not None

    assert not is_found(0, 1)
    log.write(make_batch(0))
    log.write(make_batch(1))
    assert is_found(0, 40)
    assert not is_found(0, 41)
    unfolded_views.remove(10)
    assert is_found(10, 40)
    assert not is_found(9, 40)
    log.write(make_batch(2))
    assert is_found(10, 60)
    log.write(make_batch(3))
    assert not is_found(10, 80), "more than the limit"
    assert is_found(60, 80)
    unfolded_views.discard()
    log.write(make_batch(4))
    assert not is_found(60, 100), "there is a gap"
    assert is_found(80, 100)
    log.write([view for number in range(5, 8) for view in make_batch(number)])
    assert not is_found(100, 160), "one batch has more than the limit"
    unfolded_views.remove(200)
    log.write([])
    assert not is_found(160, 161)
    database.close()


def test_rows_after_a_gap_replace_those_before_it() -> None:
    unfolded_views = UnfoldedViews()
    rows = [(number, 1, 2, 3, 4, 1, MONDAY, 5, "", "", 0) for number in (1, 2, 4)]
    unfolded_views.add(rows[:2])
    unfolded_views.add(rows[2:])
    assert unfolded_views.find(0, 4) is None
    assert unfolded_views.find(3, 4) is not None


CHANGES: dict[str, Callable[[DuckStore], object]] = {
    "withdrawn": lambda store: store.withdraw_views("docs", [7]),
    "forgotten": lambda store: store.forget_visitor("docs", 7),
}


@pytest.mark.deep
@pytest.mark.parametrize("folded", [False, True], ids=["nothing folded", "folded before"])
@pytest.mark.parametrize("later", [False, True], ids=["last", "views follow"])
@pytest.mark.parametrize("change", CHANGES)
def test_visitor_of_a_removed_unfolded_view_is_not_counted(
    store: DuckStore, change: str, later: bool, folded: bool
) -> None:
    if folded:
        store.log_views([make_view(visitor=1)])
        store.fold()
    store.log_views([make_view(visitor=2), REMOVED])
    CHANGES[change](store)
    if later:
        store.log_views([make_view(visitor=3)])
    store.fold()
    store.fold()
    remaining = 1 + later + folded
    assert store.count_visitors_by_page("docs").totals == Counts(remaining, 0, remaining)
    views = remaining if change == "withdrawn" else remaining + 1
    assert store.count_views_by_page("docs").totals == Counts(views, 0, views)


@pytest.mark.deep
def test_unfolded_view_counts_with_its_new_class(store: DuckStore) -> None:
    store.log_views([TRAINING])
    assert store.reclassify_views("docs", [TO_ASSISTANT], "2").views == 1
    store.fold()
    assert store.count_visitors_by_page("docs").totals == Counts(0, 1, 1)


def test_unfolded_view_of_a_deleted_project_does_not_count_for_a_new_one(store: DuckStore) -> None:
    store.log_views([REMOVED])
    store.forget_project("docs")
    store.log_views([make_view("/a")])
    store.fold()
    page = store.count_visitors_by_page("docs")
    assert [row.path for row in page.rows] == ["/a"]
    assert page.totals == Counts(1, 0, 1)


def test_unfolded_views_count_after_folded_raw_views_were_deleted(store: DuckStore) -> None:
    store.log_views([make_view(visitor=1)])
    store.fold()
    store.log_views([make_view(visitor=2)])
    assert store.delete_raw_views(MONDAY + 1) == 1
    store.fold()
    assert store.count_visitors_by_page("docs").totals == Counts(2, 0, 2)
    assert store.delete_raw_views(MONDAY + 1) == 1


def test_views_of_a_failed_write_are_not_counted(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb")
    store.log_views([make_view(visitor=1)])
    with pytest.raises(duckdb.Error, match="range"):
        store.log_views([make_view(visitor=2), make_view(visitor=1 << 64)])
    store.log_views([make_view(visitor=3)])
    assert store.fold() == 2
    assert store.count_visitors_by_page("docs").totals == Counts(2, 0, 2)
    store.close()


def test_more_views_than_fit_into_memory_are_all_counted(store: DuckStore) -> None:
    views = [make_view(visitor=1 + number % 11) for number in range(MAX_VIEWS_IN_MEMORY)]
    store.log_views([make_view(visitor=12)])
    assert store.log_views(views) == LogResult(len(views))
    store.log_views([make_view(visitor=13)])
    assert store.fold() == len(views) + 2
    assert store.count_visitors_by_page("docs").totals.total == 13


@pytest.mark.deep
def test_views_that_are_logged_during_folds_count_once(tmp_path: Path) -> None:
    store, model = DuckStore(tmp_path / "a.duckdb", run_sizes=SHORT_RUNS), ReferenceStore()
    logged: list[PageView] = []
    with keep_folding(store):
        for number in range(60):
            views = make_batch(number)
            store.log_views(views)
            logged += views
            if number % 10 == 9:
                assert store.withdraw_views("docs", range(number * BATCH_VIEWS, number * BATCH_VIEWS + 5)) == 5
                del logged[-BATCH_VIEWS : 5 - BATCH_VIEWS]
    store.fold()
    model.log_views(logged)
    model.fold()
    found, wanted = (each.count_visitors_by_page("docs", ALL_DAYS, 50, 0) for each in (store, model))
    assert found == wanted
    assert store.count_views_by_page("docs").totals == model.count_views_by_page("docs", ALL_DAYS, 50, 0).totals
    store.close()


@contextmanager
def keep_folding(store: DuckStore) -> Iterator[None]:
    is_over = threading.Event()

    def fold_often() -> None:
        while not is_over.wait(0.001):
            store.fold()

    folding = threading.Thread(target=fold_often)
    folding.start()
    try:
        yield
    finally:
        is_over.set()
        folding.join()
