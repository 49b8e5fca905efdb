"""The totals of several sites, and visitors by hour; test_exact compares both with the count over all views."""

import pytest

from copydesk.analytics.stores.base import CLASS_BITS, DayRange, Store
from copydesk.analytics.stores.report_rows import Counts, HourPoint, SiteTotals
from copydesk.core.clock import DAY, HOUR
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

WEEK = DayRange(MONDAY, MONDAY + 7)
ASSISTANT = CLASS_BITS["assistant"]


@pytest.mark.deep
def test_totals_of_many_projects_equal_those_of_each(store: Store) -> None:
    views = [
        make_view(
            f"/{number % 3}", MONDAY + number % 9, ("human", "assistant", "search")[number % 3], number % 11 or None
        )
        for number in range(600)
    ]
    projects = [f"project {number}" for number in range(6)]
    log_and_fold(store, *(view._replace(project=projects[number % 5]) for number, view in enumerate(views)))
    totals = {each.project_id: each for each in store.count_site_totals(projects, WEEK)}
    for project in projects:
        visitors = store.count_visitors_by_page(project, WEEK, 1).totals
        views_of_project = store.count_views_by_page(project, WEEK, 1).totals
        if views_of_project.total:
            assert totals.pop(project) == SiteTotals(project, visitors, views_of_project, ASSISTANT)
    assert totals == {}


def test_totals_use_the_ai_classes_of_each_project(store: Store) -> None:
    store.set_ai_classes("other", ["search"])
    log_and_fold(
        store,
        make_view(kind="search"),
        make_view(),
        make_view(kind="search", project="other"),
        make_view(kind="assistant", project="other"),
    )
    one, nothing = Counts(1, 0, 1), Counts(0, 1, 1)
    assert list(store.count_site_totals(["other", "docs", "docs", "unknown"])) == [
        SiteTotals("docs", one, one, ASSISTANT),
        SiteTotals("other", nothing, nothing, CLASS_BITS["search"]),
    ]
    assert list(store.count_site_totals([])) == []


@pytest.mark.deep
def test_hours_count_a_visitor_once_in_each_hour_and_once_in_all(store: Store) -> None:
    def view_at(at: int, kind: str = "human", visitor: int | None = 1) -> None:
        log_and_fold(store, make_view(kind=kind, visitor=visitor)._replace(at=MONDAY * DAY + at))

    for at, kind, visitor in (
        (0, "human", 1), (HOUR - 1, "human", 1), (HOUR - 1, "assistant", 1), (HOUR, "human", 1), (HOUR, "human", 2),
        (2 * HOUR, "search", 3), (3 * HOUR, "human", None), (4 * HOUR, "human", 4),
    ):  # fmt: skip
        view_at(at, kind, visitor)
    log_and_fold(store, make_view()._replace(at=MONDAY * DAY + 1, status=404), make_view(project="other"))
    report = store.load_hours("docs", MONDAY * DAY, MONDAY * DAY + 4 * HOUR)
    first = MONDAY * 24
    assert list(report.hours) == [
        HourPoint(first, Counts(1, 1, 1), Counts(2, 1, 3)),
        HourPoint(first + 1, Counts(2, 0, 2), Counts(2, 0, 2)),
        HourPoint(first + 3, Counts(), Counts(1, 0, 1)),
    ]
    assert (report.visitors, report.views) == (Counts(2, 1, 2), Counts(5, 1, 6))


def test_hours_are_gone_with_the_raw_views(store: Store) -> None:
    log_and_fold(store, make_view())
    store.log_views([make_view(visitor=2)])
    assert store.load_hours("docs", 0, (MONDAY + 1) * DAY).visitors == Counts(1, 0, 1), "it counts unfolded views"
    store.fold()
    store.delete_raw_views(MONDAY + 1)
    assert store.load_hours("docs", 0, (MONDAY + 1) * DAY).hours == []
    assert store.load_hours("unknown", 0, (MONDAY + 1) * DAY).views == Counts()
