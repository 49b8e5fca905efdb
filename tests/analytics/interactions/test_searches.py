"""Searches of readers, on both databases."""

import pytest

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.cursors import InvalidCursor, decode_cursor, encode_cursor
from copydesk.analytics.interactions.searches import (
    CLICK_WINDOW_MS,
    TEXT_COLUMNS,
    NewSearch,
    Searches,
    SearchesFull,
    SearchRow,
)
from copydesk.analytics.interactions.storage_quota import StorageQuota
from copydesk.core.clock import DAY
from copydesk.desk import Desk

NOON = 20_500 * DAY + DAY // 2


def list_terms(searches: Searches, project: str, *, is_clicked: bool | None = None) -> list[tuple[str, int]]:
    return [(row.query, row.hits) for row in searches.report(project, is_clicked=is_clicked).rows]


def test_queries_are_grouped_ignoring_case_and_spacing(desk: Desk, project: str) -> None:
    new = [NewSearch(query, NOON + n) for n, query in enumerate(["install", " Install ", "IN STALL", "in  stall", "x"])]
    assert desk.searches.add_all(project, new) == 5
    report = desk.searches.report(project)
    assert [(row.query, row.hits, row.last_at) for row in report.rows] == [
        ("IN STALL", 2, NOON + 3),
        ("Install", 2, NOON + 1),
        ("x", 1, NOON + 4),
    ]
    assert (report.total, report.next_cursor) == (5, None)


def test_click_rate_and_most_opened_page(desk: Desk, project: str) -> None:
    clicks = ["/b", "/a", "/a", "/b", None, "/c"]
    desk.searches.add_all(project, [NewSearch("install", NOON, clicked=clicked) for clicked in clicks])
    [row] = desk.searches.report(project).rows
    assert row == SearchRow("install", 6, 5, "/a", NOON)
    assert row.click_rate == 83.33


def test_click_completes_the_visitors_earlier_search(desk: Desk, project: str) -> None:
    def search(at: int, clicked: str | None = None, visitor: int | None = 1, event: str | None = None) -> int:
        return desk.searches.add_all(project, [NewSearch("install", at, 3, clicked, visitor, event)])

    search(NOON)
    assert search(NOON + 1000, clicked="/install", event="c1") == 1
    [row] = desk.searches.report(project).rows
    assert (row.hits, row.clicks, row.top_clicked_page) == (1, 1, "/install")

    assert search(NOON + 1000, clicked="/install", event="c1") == 0, "the click was sent before"
    assert search(NOON + 2000, clicked="/other", event="c2") == 1, "no search without a click is left"
    search(NOON + 3000)
    search(NOON + 3000 + CLICK_WINDOW_MS + 1, clicked="/late")
    search(NOON + 4000, clicked="/theirs", visitor=2)
    search(NOON + 4000, clicked="/unknown", visitor=None)
    [row] = desk.searches.report(project).rows
    assert (row.hits, row.clicks) == (6, 5)


def test_repeated_event_is_stored_once(desk: Desk, project: str) -> None:
    new = [NewSearch("a", NOON, event="e1"), NewSearch("b", NOON, event="e2"), NewSearch("a", NOON, event="e1")]
    assert desk.searches.add_all(project, new) == 2
    assert desk.searches.add_all(project, new) == 0
    other = desk.projects.create("Other", repository="/srv/docs.git", ref="main", actor="ada").id
    assert desk.searches.add_all(other, new) == 2, "another project's events are others"
    assert list_terms(desk.searches, project) == [("a", 1), ("b", 1)]


def test_cursor_pages_follow_each_other_without_gaps(desk: Desk, project: str) -> None:
    counts = {"é": 3, "a": 3, "Z": 3, "_": 1, "文": 1, "b c": 2, "😀": 1}
    new = [NewSearch(query, NOON) for query, count in counts.items() for _ in range(count)]
    desk.searches.add_all(project, new)
    whole = list_terms(desk.searches, project)
    assert whole == [("a", 3), ("Z", 3), ("é", 3), ("b c", 2), ("_", 1), ("文", 1), ("😀", 1)]
    for limit in (1, 2, 3, 6, 7, 8):
        report = desk.searches.report(project, limit=limit)
        found = list(report.rows)
        while report.next_cursor is not None:
            report = desk.searches.report(project, limit=limit, cursor=report.next_cursor)
            assert report.rows, "where there is a cursor there is more"
            assert report.total == 14
            found += report.rows
        assert [(row.query, row.hits) for row in found] == whole


def test_range_limits_rows_and_total_to_the_millisecond(desk: Desk, project: str) -> None:
    desk.searches.add_all(project, [NewSearch("a", at, clicked=f"/{at}") for at in (NOON - 1, NOON, NOON + 1)])
    report = desk.searches.report(project, TimeRange(NOON, NOON + 1))
    assert (report.total, report.rows[0].hits, report.rows[0].top_clicked_page) == (1, 1, f"/{NOON}")


def test_terms_are_selected_by_clicks(desk: Desk, project: str) -> None:
    desk.searches.add_all(
        project, [NewSearch("a", NOON, clicked="/a"), NewSearch("a", NOON), NewSearch("b", NOON, results=0)]
    )
    assert list_terms(desk.searches, project, is_clicked=True) == [("a", 2)]
    assert list_terms(desk.searches, project, is_clicked=False) == [("b", 1)]


def test_searches_are_deleted_by_visitor_and_by_retention(desk: Desk, project: str) -> None:
    other = desk.projects.create("Other", repository="/srv/docs.git", ref="main", actor="ada").id
    for each in (project, other):
        desk.searches.add_all(each, [NewSearch(str(age), NOON - age * DAY, visitor=age + 1) for age in range(4)])
    today = NOON // DAY
    assert desk.searches.list_days(project) == {today - age for age in range(4)}
    assert desk.searches.delete_visitors(project, {1, 99}) == 1
    assert desk.searches.delete_expired({project: 2, other: None}, today) == 1
    assert {query for query, _ in list_terms(desk.searches, project)} == {"1", "2"}
    assert len(list_terms(desk.searches, other)) == 4
    assert desk.searches.delete_entries(project) == 2


def test_full_project_refuses_searches_and_keeps_the_old(desk: Desk, project: str) -> None:
    quota = StorageQuota(desk.database, TEXT_COLUMNS, max_entries=2, max_bytes=10_000, error=SearchesFull)
    searches = Searches(desk.database, quota)
    searches.add_all(project, [NewSearch("a", NOON)])
    with pytest.raises(SearchesFull):
        searches.add_all(project, [NewSearch("b", NOON), NewSearch("c", NOON)])
    searches.add_all(project, [NewSearch("b", NOON)])
    assert list_terms(searches, project) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "fb_1", encode_cursor(1, "a")[:-2], encode_cursor(1 << 63, "a"), encode_cursor(1, "\x00")]
)
def test_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        decode_cursor(cursor)
