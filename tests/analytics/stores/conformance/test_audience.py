"""Referrers, sections and single pages, one rule at a time; test_exact tests them in combination."""

import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, RawViewLimits, SectionQuery, Store
from copydesk.analytics.stores.names import referrer_hosts
from copydesk.analytics.stores.report_rows import (
    Counts,
    PageReferrerRow,
    ReferrerReport,
    ReferrerRow,
    ReferrerTotals,
    SectionRow,
)
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view


def make_arrival(referrer: str, visitor: int = 1, day: int = MONDAY, path: str = "/") -> PageView:
    return make_view(path, day, visitor=visitor)._replace(referrer=referrer, host="docs.example.com")


@pytest.mark.deep
def test_referrers_count_a_person_once_per_kind(store: Store) -> None:
    log_and_fold(
        store, make_arrival("www.google.com"), make_arrival("bing.com"), make_arrival("", day=MONDAY + 1),
        make_arrival("docs.example.com"), make_arrival("www.google.com", 2)._replace(kind=VisitorClass.TRAINING),
    )  # fmt: skip
    report = store.list_referrers("docs")
    assert report.totals == ReferrerTotals(search=1, direct=1)
    assert list(report.rows) == [
        ReferrerRow(None, "direct", 1, 1),
        ReferrerRow("bing.com", "search", 1, 1),
        ReferrerRow("google.com", "search", 1, 1),
    ]
    assert store.list_referrers("docs", DayRange(MONDAY + 1, MONDAY + 2)).totals == ReferrerTotals(direct=1)
    assert store.list_referrers("docs", limit=0) == ReferrerReport(report.totals, [], False)


def test_hosts_beyond_the_limit_are_counted_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referrer_hosts, "MAX_NEW_REFERRER_HOSTS_PER_DAY", 2)
    log_and_fold(store, *(make_arrival(f"{number}.example.org", number + 1) for number in range(5)))
    log_and_fold(store, make_arrival("0.example.org", 9), make_arrival("late.example.org", 9, MONDAY + 1))
    report = store.list_referrers("docs")
    assert report.totals == ReferrerTotals(site=6)
    assert {row.referrer: row.visitors for row in report.rows} == {
        "(other)": 3,
        "0.example.org": 2,
        "1.example.org": 1,
        "late.example.org": 1,
    }


def test_section_is_its_own_page_and_all_below(store: Store) -> None:
    log_and_fold(
        store, make_view("/ja"), make_view("/ja/a", visitor=2), make_view("/ja/a/b"), make_view("/jaa", visitor=3),
        make_view("/", visitor=4), make_view("/ja/a?v=2/3", visitor=2),
    )  # fmt: skip
    top = store.list_sections("docs")
    assert (top.totals, top.views) == (Counts(4, 0, 4), 6)
    assert list(top.rows) == [SectionRow("/ja", Counts(2, 0, 2), 4), SectionRow("/jaa", Counts(1, 0, 1), 1)]
    below = store.list_sections("docs", query=SectionQuery("/ja", 2))
    assert (below.totals, below.views) == (Counts(2, 0, 2), 4)
    assert list(below.rows) == [SectionRow("/ja/a", Counts(2, 0, 2), 3)]


def test_page_that_was_never_seen_has_no_detail(store: Store) -> None:
    log_and_fold(store, make_view("/a"), make_view("/gone")._replace(status=404))
    assert store.load_page("docs", "/gone") is None
    assert store.load_page("other", "/a") is None
    detail = store.load_page("docs", "/a", DayRange(MONDAY + 1, MONDAY + 2))
    assert detail is not None
    assert (detail.totals, detail.views, list(detail.agents)) == (Counts(), 0, [])


@pytest.mark.parametrize(("limits", "is_counted"), [((3, 4), True), ((2, 4), False), ((3, 3), False)])
def test_visitors_of_a_page_by_agent_and_referrer_are_counted_up_to_a_number_of_views(
    store: Store, limits: tuple[int, int], is_counted: bool
) -> None:
    log_and_fold(
        store, make_arrival("bing.com", 1), make_arrival("bing.com", 1), make_arrival("google.com", 2),
        make_view("/other", visitor=1),
    )  # fmt: skip
    detail = store.load_page("docs", "/", limits=RawViewLimits(*limits))
    assert detail is not None
    assert (detail.totals, detail.views) == (Counts(2, 0, 2), 3)
    visitors = 1 if is_counted else None
    assert list(detail.referrers) == [
        PageReferrerRow("bing.com", "search", visitors, 2),
        PageReferrerRow("google.com", "search", visitors, 1),
    ]
    assert [(row.visitors, row.views) for row in detail.agents] == [(2 if is_counted else None, 3)]
