"""The report about a page reads raw views only of days on which the page has some."""

from pathlib import Path

import pytest

from copydesk.analytics.stores.base import ALL_DAYS, DEFAULT_RAW_VIEW_LIMITS, DayRange
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.reports.page_report import DayViews, load_page, split_days
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, make_view

SITE_VIEWS = 100


def list_days(*page_views: int) -> list[DayViews]:
    return [DayViews(MONDAY + number, views, SITE_VIEWS, views) for number, views in enumerate(page_views)]


@pytest.mark.parametrize(
    ("page_views", "min_skipped_views", "expected"),
    [
        ([], 1, []),
        ([0, 0], 1, []),
        ([0, 3, 0], 1, [(1, 2)]),
        ([3, 1, 0, 0, 2], 200, [(0, 2), (4, 5)]),
        ([3, 1, 0, 0, 2], 201, [(0, 5)]),
        ([1, 0, 1, 0, 0, 1], 150, [(0, 3), (5, 6)]),
    ],
)
def test_days_are_skipped_if_the_site_has_many_views_on_them(
    page_views: list[int], min_skipped_views: int, expected: list[tuple[int, int]]
) -> None:
    days = [DayRange(MONDAY + first, MONDAY + end) for first, end in expected]
    assert split_days(list_days(*page_views), min_skipped_views) == days


@pytest.mark.parametrize("min_skipped_views", [0, 1, 7, 1_000_000])
def test_skipped_days_change_no_number(tmp_path: Path, min_skipped_views: int) -> None:
    views = [
        make_view(
            f"/{number % 7 % 3}", MONDAY + number * 31 % 40, ("human", "assistant", "search")[number % 3],
            number % 13 or None, agent=("", "Reader")[number % 2],
        )._replace(referrer=("", "example.org", "chatgpt.com")[number % 5 % 3])
        for number in range(300)
        if number * 31 % 40 % 6 < 3 or number % 7 % 3
    ]  # fmt: skip
    store, model = DuckStore(tmp_path / "a.duckdb", min_summed_views=100), ReferenceStore()
    for first in range(0, len(views), 90):
        store.log_views(views[first : first + 90])
        store.fold()
    model.log_views(views)
    model.fold()
    store.close()
    database = DuckDatabase(tmp_path / "a.duckdb")
    for days in (ALL_DAYS, DayRange(MONDAY + 3, MONDAY + 17), DayRange(MONDAY - 9, MONDAY)):
        for path in ("/0", "/1", "/2", "/none"):
            detail = load_page(database, "docs", path, days, DEFAULT_RAW_VIEW_LIMITS, min_skipped_views)
            assert detail == model.load_page("docs", path, days)
    database.close()


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
