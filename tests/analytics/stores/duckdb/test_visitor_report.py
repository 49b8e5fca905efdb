"""The report of visitors by page keeps sums in memory; whatever changes the index, it equals the sum over the index."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import (
    ALL_DAYS,
    DEFAULT_PAGE_QUERY,
    DayRange,
    PageQuery,
    Reclassification,
    SortColumn,
)
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding import links, visitor_index
from copydesk.analytics.stores.duckdb.folding.links import IndexRows
from copydesk.analytics.stores.duckdb.folding.recent_folds import RecentFolds
from copydesk.analytics.stores.duckdb.reports.visitor_report import VisitorReports
from copydesk.analytics.stores.report_rows import ReportPage
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

pytestmark = pytest.mark.deep

RANGES = [ALL_DAYS, DayRange(MONDAY - 2, MONDAY + 1), DayRange(MONDAY - 1, MONDAY), DayRange(MONDAY + 5, MONDAY + 9)]
COLUMNS: list[SortColumn] = ["path", "human", "ai", "total"]
ORDERS = [PageQuery(by=by, descending=descending) for by in COLUMNS for descending in (False, True)]
QUESTIONS = [
    *((days, 50, 0, DEFAULT_PAGE_QUERY) for days in RANGES),
    *((RANGES[number % 2], 4, 3, order) for number, order in enumerate(ORDERS)),
]
TO_SEARCH = Reclassification("rule", "", "", "human", "rule", "Finder", "", "search")


def make_views(count: int, first: int = 0, project: str = "docs") -> list[PageView]:
    """Returns views of 30 pages and four days, by visitors who return; some have no visitor, or find no page."""
    views = []
    for number in range(first, first + count):
        kind = ("human", "assistant", "search", "human")[number % 4]
        path = f"/ä/{number % 30}" if number % 2 else f"/Z{number % 30}"
        view = make_view(path, MONDAY - number % 7 % 4, kind, number % 41 or None, project=project, event=number)
        views.append(view._replace(status=404 if number % 13 == 0 else 200))
    return views


def report_from_memory(store: DuckStore, project: str = "docs") -> list[ReportPage]:
    return [store.count_visitors_by_page(project, *question) for question in QUESTIONS]


def report_from_index(store: DuckStore, project: str = "docs") -> list[ReportPage]:
    """Returns the same reports for a search that finds all pages: searches sum up the index."""
    return [
        store.count_visitors_by_page(project, days, limit, offset, PageQuery("/", order.by, order.descending))
        for days, limit, offset, order in QUESTIONS
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    store = DuckStore(tmp_path / "a.duckdb")
    log_and_fold(store, *make_views(300), *make_views(20, project="other"))
    yield store
    store.close()


def replace_project(store: DuckStore) -> None:
    store.forget_project("docs")
    log_and_fold(store, *make_views(40))


def replace_all_projects(store: DuckStore) -> None:
    """Deletes all projects, and logs views of another one first, which may get the number of a deleted one."""
    store.forget_project("docs")
    store.forget_project("other")
    log_and_fold(store, make_view("/third", project="third"), *make_views(10))


def fold_with_other_ai_classes(store: DuckStore) -> None:
    """Folds views while other classes count as AI than in the reports before and after."""
    store.set_ai_classes("docs", [])
    log_and_fold(store, *make_views(50, 300))
    store.set_ai_classes("docs", ["assistant"])


def fold_several_times(store: DuckStore) -> None:
    for first in range(300, 390, 9):
        log_and_fold(store, *make_views(9, first))


CHANGES: dict[str, Callable[[DuckStore], object]] = {
    "new views": lambda store: log_and_fold(store, *make_views(50, 300)),
    "new pages": lambda store: log_and_fold(store, make_view("/new"), make_view("/another", kind="assistant")),
    "new pages of another site": lambda store: log_and_fold(store, make_view("/new", project="other")),
    "several folds": fold_several_times,
    "views of a known day before all others": lambda store: log_and_fold(
        store, make_view("/Z0", MONDAY - 9, visitor=5)
    ),
    "forgotten visitor": lambda store: store.forget_visitor("docs", 5),
    "withdrawn views": lambda store: store.withdraw_views("docs", list(range(0, 300, 7))),
    "other classes": lambda store: store.reclassify_views("docs", [TO_SEARCH], "9"),
    "other AI classes": lambda store: store.set_ai_classes("docs", ["search"]),
    "a fold with other AI classes": fold_with_other_ai_classes,
    "deleted raw views": lambda store: store.delete_raw_views(MONDAY + 1),
    "rebuilt index": lambda store: store.rebuild_index(),
    "deleted project": lambda store: store.forget_project("docs"),
    "deleted project and new views": replace_project,
    "deleted projects and another project": replace_all_projects,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_report_after_a_change_equals_the_sum_over_the_index(
    store: DuckStore, change: Callable[[DuckStore], object]
) -> None:
    assert report_from_memory(store) == report_from_index(store)
    change(store)
    assert report_from_memory(store) == report_from_index(store)
    assert report_from_memory(store, "other") == report_from_index(store, "other")
    log_and_fold(store, *make_views(30, 1000))
    assert report_from_memory(store) == report_from_index(store)


@pytest.mark.parametrize("max_rows", [0, 40])
def test_report_after_a_fold_with_too_many_rows_for_the_memory_equals_the_sum_over_the_index(
    store: DuckStore, monkeypatch: pytest.MonkeyPatch, max_rows: int
) -> None:
    """With 40, the first ranges of days have few enough rows, but all of them together do not."""
    join_in_small_ranges(monkeypatch)
    assert report_from_memory(store) == report_from_index(store)
    with monkeypatch.context() as patch:
        patch.setattr(visitor_index, "MAX_ROWS_IN_MEMORY", max_rows)
        log_and_fold(store, *make_views(50, 300))
    assert not store._index._recent_folds.find(0, store._index.last_folded)
    assert report_from_memory(store) == report_from_index(store)
    log_and_fold(store, *make_views(50, 400))
    assert report_from_memory(store) == report_from_index(store)


def test_report_after_folds_whose_rows_were_joined_in_ranges_of_days_equals_the_sum_over_the_index(
    store: DuckStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_in_small_ranges(monkeypatch)
    assert report_from_memory(store) == report_from_index(store)
    before = store._index.last_folded
    log_and_fold(store, *make_views(50, 300))
    assert len(store._index._recent_folds.find(before, store._index.last_folded) or []) > 1
    assert report_from_memory(store) == report_from_index(store)


def join_in_small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets folds add visits in several parts, and join the rows of the index in several ranges of days."""
    monkeypatch.setattr(visitor_index, "MAX_VISITS_SEARCHED_AT_ONCE", 0)
    monkeypatch.setattr(visitor_index, "NEW_VISITS_PER_RANGE", 30)
    monkeypatch.setattr(links, "MAX_JOINED_ROWS", 5)


@pytest.mark.parametrize("seed", range(3))
def test_reports_between_random_changes_equal_the_sums_over_the_index(store: DuckStore, seed: int) -> None:
    choose = random.Random(seed)
    first_event = 10_000
    for _ in range(25):
        if choose.random() < 0.6:
            log_and_fold(store, *make_views(choose.randint(1, 60), first_event))
            first_event += 100
        else:
            choose.choice(list(CHANGES.values()))(store)
        days, order = choose.choice(RANGES), choose.choice(ORDERS)
        expected = store.count_visitors_by_page("docs", days, query=PageQuery("/", order.by, order.descending))
        assert store.count_visitors_by_page("docs", days, query=order) == expected


def test_second_report_reads_no_index(store: DuckStore) -> None:
    """Deletes the index behind the store's back; the report still has its numbers, and those of the next fold."""
    before = store.count_visitors_by_page("docs")
    with store._database.write() as connection:
        connection.execute("delete from firsts")
    assert store.count_visitors_by_page("docs") == before
    log_and_fold(store, make_view("/new", MONDAY, visitor=999))
    after = store.count_visitors_by_page("docs")
    assert after.totals.human == before.totals.human + 1
    assert {row.path for row in after.rows} == {*(row.path for row in before.rows), "/new"}
    assert store.count_visitors_by_page("docs", RANGES[1]).totals.human == 1, "these days are counted from what is left"
    store.rebuild_index()
    assert store.count_visitors_by_page("docs") == after
    assert report_from_memory(store) == report_from_index(store)


def test_reports_during_folds_equal_a_state_between_folds(store: DuckStore) -> None:
    """Four readers ask for reports while views of new visitors are folded, one visitor each."""
    before = store.count_visitors_by_page("docs").totals.human
    is_done = threading.Event()
    errors: list[object] = []

    def read() -> None:
        last = before
        while not is_done.is_set():
            report = store.count_visitors_by_page("docs")
            page = sum(row.count.human for row in report.rows if row.path == "/counted")
            if report.totals.human < last or report.totals.human != before + page:
                errors.append((last, page, report.totals))
            last = report.totals.human

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for visitor in range(1000, 1060):
        log_and_fold(store, make_view("/counted", visitor=visitor))
    is_done.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert store.count_visitors_by_page("docs").totals.human == before + 60


def test_page_without_counted_views_changes_no_report_of_other_days(store: DuckStore) -> None:
    """The second report loads the new page, which the sums of the first one do not have."""
    before = store.count_visitors_by_page("docs", RANGES[0])
    store.log_views([make_view("/not-folded-yet")])
    store.count_visitors_by_page("docs", RANGES[1])
    assert store.count_visitors_by_page("docs", RANGES[0]) == before


@pytest.mark.parametrize("max_bytes", [0, 20_000, 40_000, 1_000_000])
def test_reports_are_right_however_little_memory_they_have(store: DuckStore, tmp_path: Path, max_bytes: int) -> None:
    expected = report_from_index(store)
    store.close()
    database = DuckDatabase(tmp_path / "a.duckdb")
    reports = VisitorReports(database, RecentFolds(), max_bytes)
    for _ in range(2):
        assert [reports.count_visitors_by_page("docs", *question) for question in QUESTIONS] == expected
        assert reports.count_visitors_by_page("other", ALL_DAYS, 50, 0).totals.total > 0
    database.close()


def test_sums_in_memory_are_limited_in_number_and_size(store: DuckStore, tmp_path: Path) -> None:
    log_and_fold(store, *(make_view(f"/{'long' * 400}/{number}", project="long") for number in range(20)))
    store.close()
    database = DuckDatabase(tmp_path / "a.duckdb")
    reports = VisitorReports(database, RecentFolds(), max_bytes=60_000)
    for first in range(120):
        for project in ("docs", "other", "long"):
            reports.count_visitors_by_page(project, DayRange(first, MONDAY + 1), 5, 0)
    assert 0 < len(reports._ranges) <= 100
    assert reports._estimate_memory() <= 60_000
    with database.read() as connection:
        [(long_project,)] = connection.execute("select id from projects where name = 'long'").fetchall()
    assert long_project not in reports._pages, "its paths are too long"
    database.close()


def make_rows(count: int) -> IndexRows:
    days, numbers = np.ones(count, np.uint16), np.ones(count, np.int32)
    return IndexRows(numbers, days, days, numbers, numbers, numbers)


def test_recent_folds_are_found_only_without_a_gap() -> None:
    folds = RecentFolds(max_rows=10)
    folds.add(0, 5, [make_rows(4)])
    folds.add(5, 9, [make_rows(1), make_rows(2)])
    assert [len(rows) for rows in folds.find(0, 9) or []] == [4, 1, 2]
    assert [len(rows) for rows in folds.find(5, 9) or []] == [1, 2]
    assert folds.find(9, 9) == []
    assert folds.find(3, 9) is None
    assert folds.find(0, 11) is None
    folds.add(9, 12, [make_rows(5)])
    assert folds.find(0, 12) is None, "the oldest fold has left"
    assert [len(rows) for rows in folds.find(5, 12) or []] == [1, 2, 5]
    folds.add(20, 25, [make_rows(1)])
    assert folds.find(5, 25) is None
    assert [len(rows) for rows in folds.find(20, 25) or []] == [1]
    folds.add(25, 30, [make_rows(6), make_rows(5)])
    assert folds.find(25, 30) is None, "too many rows"
    folds.add(30, 35, [make_rows(1)])
    folds.add(35, 40, None)
    assert folds.find(30, 35) is None, "a fold of unknown rows clears all"
    folds.add(40, 45, [make_rows(3)])
    assert folds.find(30, 45) is None
    assert folds.find(35, 45) is None
    assert [len(rows) for rows in folds.find(40, 45) or []] == [3]


def test_number_of_recent_folds_is_limited() -> None:
    """Folds of known visitors on known pages add no rows."""
    folds = RecentFolds(max_folds=3)
    for after in range(5):
        folds.add(after, after + 1, [make_rows(0)])
    assert folds.find(1, 5) is None
    assert len(folds.find(2, 5) or []) == 3
