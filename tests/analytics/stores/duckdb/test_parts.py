"""Parts that only large stores use: the filter of events, reloaded names, folds in several transactions, merging."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import ALL_DAYS, DayRange, LogResult
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb import store as store_module
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding import view_summaries, visitor_index
from copydesk.analytics.stores.duckdb.folding.recent_folds import RecentFolds
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import DEFAULT_RUN_SIZES, RunSizes
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.log import event_coverage
from copydesk.analytics.stores.duckdb.log.view_log import ViewLog
from copydesk.analytics.stores.duckdb.reports.visitor_report import VisitorReports
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import make_view
from tests.analytics.stores.duckdb.writer import SHORT_RUNS, make_batch

pytestmark = pytest.mark.deep

RANGES = (ALL_DAYS, DayRange(20_460, 20_470), DayRange(20_480, 20_481))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[DuckDatabase]:
    opened = DuckDatabase(tmp_path / "a.duckdb")
    yield opened
    opened.close()


@pytest.fixture
def model() -> ReferenceStore:
    made = ReferenceStore()
    for number in range(30):
        made.log_views(make_batch(number))
    made.fold()
    return made


def count_rows(database: DuckDatabase, table: str) -> int:
    with database.read() as connection:
        return len(connection.execute("from query_table($table)", {"table": table}).fetchall())


def assert_exact(database: DuckDatabase, model: ReferenceStore) -> None:
    reports = VisitorReports(database, RecentFolds())
    for days in RANGES:
        assert reports.count_visitors_by_page("docs", days, 50, 0) == model.count_visitors_by_page("docs", days, 50, 0)


def views_with_events(events: Iterable[int]) -> list[PageView]:
    [first, *_] = make_batch(0)
    return [first._replace(event=event << 30) for event in events]


def test_full_filter_is_rebuilt_over_all_events(database: DuckDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_coverage, "EVENTS_PER_READ", 100)
    log, events = ViewLog(database, min_filter_capacity=64), range(1, 2_001)
    for first in range(0, len(events), 100):
        some = views_with_events(events[first : first + 100])
        assert log.write(some) == LogResult(100)
        assert log.write(some) == LogResult(0, tuple(range(100)))
    log.close()
    again = ViewLog(database, min_filter_capacity=64)
    for _ in range(3):
        assert again.write(views_with_events(events)).accepted == 0
    again.close()


@pytest.mark.parametrize("run_sizes", [DEFAULT_RUN_SIZES, SHORT_RUNS])
def test_folds_of_any_size_give_the_same_result(
    database: DuckDatabase, model: ReferenceStore, run_sizes: RunSizes
) -> None:
    log = ViewLog(database)
    for number in range(30):
        log.write(make_batch(number))
    assert sum(VisitorIndex(database, run_sizes).fold_views(log.last_number, max_views=37)) == 600
    assert_exact(database, model)


def test_fold_of_many_views_takes_several_transactions(
    database: DuckDatabase, model: ReferenceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor_index, "MAX_VIEWS_PER_TRANSACTION", 250)
    log = ViewLog(database)
    for number in range(30):
        log.write(make_batch(number))
    assert list(VisitorIndex(database).fold_views(log.last_number)) == [250, 250, 100]
    assert_exact(database, model)


def test_pages_evicted_from_the_cache_are_read_from_the_store(database: DuckDatabase, model: ReferenceStore) -> None:
    log = ViewLog(database, max_cached_pages=2)
    for number in range(30):
        log.write(make_batch(number))
    assert sum(VisitorIndex(database).fold_views(log.last_number)) == 600
    assert_exact(database, model)


def test_first_fold_of_many_views_sums_them_up(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb", min_summed_views=20)
    for number in range(5):
        store.log_views(make_batch(number))
    store.fold()
    with store._database.read() as connection:
        assert connection.execute("select sum(n) from page_counts").fetchall() == [(100,)]
        assert connection.execute("select sum(n) from rule_counts").fetchall() == [(100,)]
    store.close()


def test_fold_after_the_store_was_prepared_counts_as_always(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb")
    store.log_views([make_view(visitor=number) for number in range(1, 50)])
    store.fold()
    store.close()
    store = DuckStore(tmp_path / "a.duckdb")
    store.prepare_logging()
    store.log_views([make_view(visitor=number) for number in range(30, 60)])
    store.fold()
    assert store.count_visitors_by_page("docs").totals.total == 59
    store.prepare_logging()
    store.close()


def read_sums(store: DuckStore) -> list[object]:
    ranges = [ALL_DAYS, DayRange(20_460, 20_470), DayRange(20_480, 20_481)]
    pages = [store.load_page("docs", path, days) for path in ("/1", "/2") for days in ranges]
    return [*pages, *(store.list_rules("docs", days, with_missing=True) for days in ranges)]


def test_views_that_wait_to_be_summed_up_are_summed_up_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folds = tmp_path / "a.duckdb", 0
    store = DuckStore(path)
    for number in range(4):
        store.log_views(make_batch(number))
    store.fold()
    expected = read_sums(store)
    store.close()
    monkeypatch.setattr(view_summaries, "MAX_SUMMED_VIEWS", 20)
    monkeypatch.setattr(store_module, "MAX_CATCH_UP_SECONDS_PER_FOLD", 0.0)
    store = DuckStore(path, min_summed_views=20)
    while store.backlog():
        assert read_sums(store) == expected
        store.close()  # the next process continues where this one ended
        store = DuckStore(path, min_summed_views=20)
        store.fold()
        folds += 1
    assert folds > 3
    assert read_sums(store) == expected
    store.close()
