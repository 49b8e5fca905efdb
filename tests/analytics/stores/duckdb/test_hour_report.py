"""The report by hour keeps visitors in memory; whatever changes the views, it equals the count over all views."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import Reclassification
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.reports.hour_report import HourReports
from copydesk.analytics.stores.errors import RawViewsDeleted
from copydesk.analytics.stores.report_rows import HourlyReport
from copydesk.core.clock import DAY, HOUR
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

RANGES = [
    (MONDAY * DAY, (MONDAY + 1) * DAY),
    (MONDAY * DAY, MONDAY * DAY + 5 * HOUR + 1234),
    (MONDAY * DAY + 2 * HOUR, MONDAY * DAY + 9 * HOUR),
    (MONDAY * DAY + 3 * HOUR, MONDAY * DAY + 3 * HOUR + 1),
    ((MONDAY - 1) * DAY, (MONDAY + 1) * DAY),
    (MONDAY * DAY + 1, (MONDAY + 1) * DAY),
]
TO_SEARCH = Reclassification("rule", "", "", "human", "rule", "Finder", "", "search")


def make_views(count: int, first: int = 0) -> list[PageView]:
    """Returns views of two days, by people and AI, by visitors with several hours, and some without a visitor."""
    views = []
    for number in range(first, first + count):
        view = make_view(
            f"/{number % 3}", MONDAY - number % 2, ("human", "assistant", "search")[number % 3], number % 37 or None,
            event=number,
        )  # fmt: skip
        at = view.at // DAY * DAY + number * 7_654_321 % DAY
        views.append(view._replace(at=at, status=404 if number % 11 == 0 else 200))
    return views


@contextmanager
def read_reports_meanwhile(store: DuckStore) -> Iterator[None]:
    """Loads reports in three threads while the block runs. None of them may fail."""
    is_over = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not is_over.is_set():
                load_all(store)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
    assert errors == []


def make_changes(store: DuckStore, turn: int) -> None:
    """Adds, forgets, withdraws and reclassifies views; each turn changes other ones."""
    log_and_fold(store, *make_views(20, 1_000 + turn * 20))
    store.forget_visitor("docs", turn + 1)
    store.withdraw_views("docs", list(range(turn * 10, turn * 10 + 5)))
    store.set_ai_classes("docs", ["search"] if turn % 2 else ["assistant"])


def load_all(store: DuckStore, project: str = "docs") -> list[HourlyReport]:
    return [store.load_hours(project, first_at, end_at) for first_at, end_at in RANGES]


@pytest.fixture
def store(tmp_path: Path) -> DuckStore:
    store = DuckStore(tmp_path / "a.duckdb")
    log_and_fold(store, *make_views(600), make_view(project="other", visitor=1))
    return store


def replace_project(store: DuckStore) -> None:
    store.forget_project("docs")
    log_and_fold(store, *make_views(40))


def replace_all_projects(store: DuckStore) -> None:
    """Deletes all projects, and logs views of another one first, which may get the number of a deleted one."""
    store.forget_project("docs")
    store.forget_project("other")
    log_and_fold(store, make_view(project="third"), *make_views(10))


CHANGES: dict[str, Callable[[DuckStore], object]] = {
    "new views": lambda store: log_and_fold(store, *make_views(50, 600)),
    "late views": lambda store: log_and_fold(
        store, *(view._replace(event=None, visitor=1000) for view in make_views(30))
    ),
    "forgotten visitor": lambda store: store.forget_visitor("docs", 5),
    "withdrawn views": lambda store: store.withdraw_views("docs", list(range(0, 600, 7))),
    "other classes": lambda store: store.reclassify_views("docs", [TO_SEARCH], "9"),
    "other AI classes": lambda store: store.set_ai_classes("docs", ["search"]),
    "no AI classes": lambda store: store.set_ai_classes("docs", []),
    "deleted raw views": lambda store: store.delete_raw_views(MONDAY + 1),
    "deleted project": lambda store: store.forget_project("docs"),
    "deleted project and new views": replace_project,
    "deleted projects and another project": replace_all_projects,
}


@pytest.mark.deep
@pytest.mark.parametrize("name", CHANGES)
def test_hours_after_a_change_equal_those_of_a_store_that_was_just_opened(
    name: str, store: DuckStore, tmp_path: Path
) -> None:
    before = load_all(store)
    assert load_all(store) == before, "the second time from memory"
    CHANGES[name](store)
    after = load_all(store)
    assert after != before, "the change has an effect"
    store.close()
    opened = DuckStore(tmp_path / "a.duckdb")
    assert load_all(opened) == after
    opened.close()


@pytest.mark.deep
def test_failed_correction_leaves_the_hours_as_they_were(store: DuckStore) -> None:
    store.delete_raw_views(MONDAY)
    log_and_fold(store, make_view(day=MONDAY - 1, event=9_999))
    before = load_all(store)
    with pytest.raises(RawViewsDeleted):
        store.withdraw_views("docs", [9_999])
    assert load_all(store) == before
    store.close()


@pytest.mark.deep
def test_report_that_begins_before_a_change_does_not_spoil_later_ones(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb")
    log_and_fold(store, *make_views(600))
    with read_reports_meanwhile(store):
        for turn in range(12):
            make_changes(store, turn)
    after = load_all(store)
    store.close()
    opened = DuckStore(tmp_path / "a.duckdb")
    assert load_all(opened) == after
    opened.close()


@pytest.mark.deep
@pytest.mark.parametrize("max_visitors", [0, 10, 30, 1_000_000])
def test_days_with_too_many_visitors_are_counted_from_raw_views(
    store: DuckStore, tmp_path: Path, max_visitors: int
) -> None:
    expected = load_all(store)
    store.close()
    database = DuckDatabase(tmp_path / "a.duckdb")
    reports = HourReports(database, max_visitors)
    for _ in range(2):
        assert [reports.load_hours("docs", *asked) for asked in RANGES] == expected
    database.close()
