"""Requests for missing pages are counted per path, by people and AI, and never mix with views."""

from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import ALL_DAYS, DayRange, Store
from copydesk.analytics.stores.names import missing_paths
from copydesk.analytics.stores.report_rows import Counts, MissingReport, MissingRow, ReferrerCount
from copydesk.analytics.stores.shared import SharedStore
from copydesk.core.clock import DAY
from tests.analytics.stores.conformance.conftest import STORE_OPENERS
from tests.analytics.stores.conformance.test_corrections import read_reports
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

LAST_AT = MONDAY * DAY + 5


@pytest.fixture(params=[*STORE_OPENERS, "shared"])
def open_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    return STORE_OPENERS.get(request.param, SharedStore)


def make_missing(
    path: str = "/gone",
    visitor: int | None = 1,
    *,
    referrer: str = "",
    status: int = 404,
    day: int = MONDAY,
    kind: str = "human",
    event: int | None = None,
    project: str = "docs",
) -> PageView:
    view = make_view(path, day, kind, visitor, event, project=project)
    return view._replace(status=status, referrer=referrer)


def list_paths(report: MissingReport) -> list[str]:
    return [row.path for row in report.rows]


@pytest.mark.deep
def test_missing_pages_change_no_report_of_views(store: Store) -> None:
    log_and_fold(store, make_view(), make_view("/a", visitor=2, kind="assistant", agent="Reader"))
    before = read_reports(store)
    log_and_fold(store, make_missing("/"), make_missing("/a", 3, kind="assistant"), make_missing("/b", 4, status=410))
    assert read_reports(store) == before
    assert store.list_missing_pages("docs").rows == [
        MissingRow("/", Counts(1, 0, 1), 1, LAST_AT, []),
        MissingRow("/a", Counts(0, 1, 1), 1, LAST_AT, []),
        MissingRow("/b", Counts(1, 0, 1), 1, LAST_AT, []),
    ]
    assert store.list_missing_pages("nobody") == MissingReport([], False)


@pytest.mark.deep
def test_path_that_exists_later_has_both_numbers(store: Store) -> None:
    log_and_fold(store, make_missing("/guide"), make_missing("/guide", 2))
    log_and_fold(store, make_view("/guide", day=MONDAY + 1), make_view("/guide", day=MONDAY + 1, visitor=3))
    assert store.list_missing_pages("docs").rows[0].count == Counts(2, 0, 2)
    assert store.count_visitors_by_page("docs").totals == Counts(2, 0, 2)


@pytest.mark.deep
def test_visitors_of_a_missing_page_are_unique_over_any_range(store: Store) -> None:
    log_and_fold(store, *(make_missing(day=MONDAY + day) for day in range(3)), make_missing(visitor=None))
    log_and_fold(store, make_missing(kind="assistant", day=MONDAY + 1), make_missing(kind="search", visitor=9))
    for first, end in ((0, 1), (1, 2), (1, 3), (0, 3)):
        [row] = store.list_missing_pages("docs", DayRange(MONDAY + first, MONDAY + end)).rows
        assert row.count == Counts(1, int(first <= 1 < end), 1)
        assert row.last_at == LAST_AT + (end - 1) * DAY
    assert store.list_missing_pages("docs", DayRange(MONDAY + 3, MONDAY + 4)) == MissingReport([], False)


@pytest.mark.deep
def test_missing_pages_are_ordered_by_total_then_path_in_parts(store: Store) -> None:
    log_and_fold(store, make_missing("/c"), make_missing("/a"), make_missing("/b"), make_missing("/b", 2))
    log_and_fold(store, make_missing("/crawled", kind="search"), make_missing("/unidentified", None))
    assert list_paths(store.list_missing_pages("docs")) == ["/b", "/a", "/c", "/unidentified"]
    report = store.list_missing_pages("docs", ALL_DAYS, 2, 1)
    assert (list_paths(report), report.has_more) == (["/a", "/c"], True)
    report = store.list_missing_pages("docs", ALL_DAYS, 2, 2)
    assert (list_paths(report), report.has_more) == (["/c", "/unidentified"], False)


def test_most_frequent_referrers_of_a_missing_page_are_listed(store: Store) -> None:
    requests = [make_missing(referrer=f"site{number}.example") for number in range(12)]
    log_and_fold(store, *requests, make_missing(referrer="/guide"), make_missing(), make_missing(referrer="/guide"))
    log_and_fold(store, make_missing(referrer="bot.example", kind="training"))
    [row] = store.list_missing_pages("docs").rows
    assert row.views == 15
    assert len(row.referrers) == missing_paths.MAX_REFERRERS_PER_PATH
    assert row.referrers[:2] == [ReferrerCount("/guide", 2), ReferrerCount("site0.example", 1)]


@pytest.mark.deep
def test_paths_beyond_the_limit_are_counted_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_paths, "MAX_NEW_MISSING_PATHS_PER_DAY", 3)
    log_and_fold(store, make_missing("/kept"), *(make_missing(f"/scan/{n}", visitor=n % 2 + 7) for n in range(9)))
    log_and_fold(store, make_missing("/kept", 2), make_missing("/scan/8", 7))
    report = store.list_missing_pages("docs")
    assert list_paths(report) == ["/kept", "/scan/0", "/scan/1"]
    assert report.rows[0].count == Counts(2, 0, 2)
    assert (report.other, report.other_views) == (Counts(2, 0, 2), 8)
    report = store.list_missing_pages("docs", ALL_DAYS, 2, 2)
    assert (list_paths(report), report.has_more, report.other_views) == (["/scan/1"], False, 8)
    log_and_fold(store, make_missing("/next-day", day=MONDAY + 1))
    assert "/next-day" in list_paths(store.list_missing_pages("docs"))


@pytest.mark.deep
def test_referrers_beyond_the_limit_are_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_paths, "MAX_REFERRERS_PER_DAY", 2)
    log_and_fold(store, *(make_missing(referrer=f"site{n % 4}.example") for n in range(8)))
    [row] = store.list_missing_pages("docs").rows
    assert row.views == 8
    assert row.referrers == [ReferrerCount("site0.example", 2), ReferrerCount("site1.example", 2)]


def test_a_project_has_a_limited_number_of_missing_paths(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_paths, "MAX_MISSING_PATHS", 2)
    log_and_fold(store, *(make_missing(f"/{n}", day=MONDAY + n) for n in range(4)), make_missing(project="other"))
    report = store.list_missing_pages("docs")
    assert (list_paths(report), report.other_views) == (["/0", "/1"], 2)
    assert list_paths(store.list_missing_pages("other")) == ["/gone"]


@pytest.mark.deep
def test_forgotten_visitors_and_projects_leave_missing_pages(store: Store) -> None:
    log_and_fold(store, make_missing(), make_missing(visitor=2), make_missing(project="other", referrer="a.example"))
    store.forget_visitor("docs", 1)
    assert store.list_missing_pages("docs").rows[0].count == Counts(1, 0, 1)
    assert store.list_missing_pages("docs").rows[0].views == 2
    store.rebuild_index()
    assert store.list_missing_pages("docs").rows[0].count == Counts(1, 0, 1)
    store.forget_project("other")
    assert store.list_missing_pages("other") == MissingReport([], False)
    assert store.list_missing_pages("docs").rows[0].views == 2


@pytest.mark.deep
def test_withdrawn_missing_requests_leave_no_trace(store: Store) -> None:
    late = make_missing(event=2, visitor=2, referrer="b.example", day=MONDAY + 1)
    log_and_fold(store, make_missing(event=1, referrer="a.example"), make_view(event=3))
    before = [store.list_missing_pages("docs"), *read_reports(store)]
    log_and_fold(store, late)
    assert store.withdraw_views("docs", [2]) == 1
    assert [store.list_missing_pages("docs"), *read_reports(store)] == before
    log_and_fold(store, late)
    assert store.list_missing_pages("docs").rows[0].referrers == [
        ReferrerCount("a.example", 1),
        ReferrerCount("b.example", 1),
    ]


@pytest.mark.deep
def test_missing_pages_survive_a_restart_and_deleted_raw_views(
    open_store: Callable[[Path], Store], tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log_and_fold(store, make_missing(referrer="/guide"))
    before = store.list_missing_pages("docs")
    store.delete_raw_views(MONDAY + 1)
    store.close()
    store = open_store(tmp_path)
    assert store.list_missing_pages("docs") == before
    store.close()
