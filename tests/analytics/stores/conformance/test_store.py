"""The rules of every store, one at a time; test_exact tests them in combination."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import ALL_DAYS, DayRange, LogResult, PageQuery, SortColumn, Store
from copydesk.analytics.stores.errors import DayOutOfRange
from copydesk.analytics.stores.report_rows import Counts, PageCounts, RuleRow, TimeseriesPoint
from copydesk.core.clock import DAY

MONDAY = 20_458
"""2026-01-05."""


def make_view(
    path: str = "/",
    day: int = MONDAY,
    kind: str = "human",
    visitor: int | None = 1,
    event: int | None = None,
    agent: str = "",
    project: str = "docs",
    rule: str = "rule",
    agent_table_version: str = "1",
) -> PageView:
    operator, at = agent and "Example", day * DAY + 5
    return PageView(
        project, path, at, VisitorClass(kind), agent, operator, rule, agent_table_version, visitor, "", "", 200, event
    )


def log_and_fold(store: Store, *views: PageView) -> None:
    store.log_views(views)
    store.fold()


@pytest.mark.deep
def test_total_counts_a_visitor_once_across_human_and_ai(store: Store) -> None:
    log_and_fold(store, make_view(), make_view(kind="assistant"), make_view(visitor=2))
    assert store.count_visitors_by_page("docs").totals == Counts(human=2, ai=1, total=2)


def test_every_view_is_counted(store: Store) -> None:
    log_and_fold(store, make_view(), make_view(), make_view(kind="assistant"), make_view(visitor=None))
    assert store.count_views_by_page("docs").totals == Counts(human=3, ai=1, total=4)


def test_view_without_visitor_adds_no_visitor(store: Store) -> None:
    log_and_fold(store, make_view(visitor=None))
    assert store.count_visitors_by_page("docs").totals == Counts()
    assert store.count_visitors_by_page("docs").rows == []


def test_an_empty_project_has_empty_reports(store: Store) -> None:
    assert store.count_visitors_by_page("docs").totals == Counts()
    assert list(store.load_timeseries("docs", "day")) == []
    assert store.list_agents("docs") == ([], False)


def test_a_logged_view_is_in_no_report_before_it_is_folded(store: Store) -> None:
    store.log_views([make_view()])
    assert store.backlog() == 1
    assert store.count_views_by_page("docs").totals == Counts()
    assert store.fold() == 1
    assert store.backlog() == 0
    assert store.fold() == 0


@pytest.mark.deep
def test_an_event_is_logged_once(store: Store) -> None:
    assert store.log_views([make_view(event=7), make_view(event=7), make_view(event=8)]) == LogResult(2, (1,))
    assert store.log_views([make_view(event=8), make_view(event=9), make_view(), make_view()]) == LogResult(3, (0,))
    assert store.log_views([make_view(event=7, project="other")]) == LogResult(1)


def test_all_128_bits_of_an_event_id_count(store: Store) -> None:
    assert store.log_views(
        [make_view(event=1), make_view(event=1 << 64 | 2), make_view(event=2 << 64 | 2)]
    ) == LogResult(3)


def test_rows_are_ordered_by_total_then_code_point(store: Store) -> None:
    paths = ["/é", "/z", "/Z", "/a", "/\N{GRINNING FACE}", "/\uffee"]
    log_and_fold(store, *(make_view(path) for path in paths), make_view("/z", visitor=2))
    assert [row.path for row in store.count_visitors_by_page("docs").rows] == [
        "/z",
        "/Z",
        "/a",
        "/é",
        "/\uffee",
        "/\N{GRINNING FACE}",
    ]


@pytest.mark.parametrize(("limit", "offset", "paths", "more"), [
    (2, 0, ["/0", "/1"], True),
    (2, 2, ["/2", "/3"], False),
    (4, 0, ["/0", "/1", "/2", "/3"], False),
    (3, 3, ["/3"], False),
    (2, 4, [], False),
    (2, 9, [], False),
])  # fmt: skip
def test_has_more_is_right_at_every_boundary(
    store: Store, limit: int, offset: int, paths: list[str], more: bool
) -> None:
    log_and_fold(store, *(make_view(f"/{number}") for number in range(4)))
    for page in (
        store.count_visitors_by_page("docs", ALL_DAYS, limit, offset),
        store.count_views_by_page("docs", ALL_DAYS, limit, offset),
    ):
        assert ([row.path for row in page.rows], page.has_more) == (paths, more)
        assert page.totals.total in (1, 4)


@pytest.mark.parametrize(("by", "descending", "paths"), [
    ("total", True, ["/b", "/a", "/c"]),
    ("total", False, ["/c", "/a", "/b"]),
    ("human", True, ["/a", "/b", "/c"]),
    ("ai", True, ["/b", "/a", "/c"]),
    ("ai", False, ["/a", "/c", "/b"]),
    ("path", True, ["/c", "/b", "/a"]),
    ("path", False, ["/a", "/b", "/c"]),
])  # fmt: skip
def test_pages_are_ordered_by_any_column_in_either_direction(
    store: Store, by: SortColumn, descending: bool, paths: list[str]
) -> None:
    log_and_fold(store, *(make_view("/a", visitor=v) for v in (1, 2)), make_view("/b"), make_view("/c"))
    log_and_fold(store, *(make_view("/b", visitor=v, kind="assistant") for v in (3, 4)))
    choice = PageQuery(by=by, descending=descending)
    assert [row.path for row in store.count_visitors_by_page("docs", query=choice).rows] == paths
    first, rest = (
        store.count_visitors_by_page("docs", ALL_DAYS, 1, 0, choice),
        store.count_visitors_by_page("docs", ALL_DAYS, 2, 1, choice),
    )
    assert ([row.path for row in (*first.rows, *rest.rows)], first.has_more, rest.has_more) == (paths, True, False)


@pytest.mark.parametrize(("search", "paths"), [
    ("GUIDE", ["/Guide/a", "/guide/b"]),
    ("/a", ["/Guide/a", "/a%_"]),
    ("%", ["/a%_"]),
    ("_", ["/a%_"]),
    ("é", ["/É"]),
    ("nowhere", []),
])  # fmt: skip
def test_search_filters_pages_by_path_but_not_the_totals(store: Store, search: str, paths: list[str]) -> None:
    log_and_fold(
        store, *(make_view(path, visitor=v) for v, path in enumerate(("/Guide/a", "/guide/b", "/a%_", "/É"), 1))
    )
    page = store.count_visitors_by_page("docs", query=PageQuery(search))
    assert ([row.path for row in page.rows], page.totals) == (paths, Counts(4, 0, 4))


def test_the_end_of_a_range_is_exclusive_and_an_empty_range_is_empty(store: Store) -> None:
    log_and_fold(store, make_view(day=MONDAY), make_view(day=MONDAY + 1, visitor=2))
    assert store.count_visitors_by_page("docs", DayRange(MONDAY, MONDAY + 1)).totals.total == 1
    assert store.count_visitors_by_page("docs", DayRange(MONDAY + 1, MONDAY)).totals == Counts()
    assert store.count_visitors_by_page("docs", DayRange(MONDAY, MONDAY)).rows == []


@pytest.mark.deep
def test_view_for_a_day_between_counted_days_is_counted(store: Store) -> None:
    log_and_fold(store, make_view(day=MONDAY), make_view(day=MONDAY + 4))
    log_and_fold(store, make_view(day=MONDAY + 2))
    for days in (1, 2, 3, 4, 5):
        assert store.count_visitors_by_page("docs", DayRange(MONDAY, MONDAY + days)).totals.human == 1
    assert store.count_visitors_by_page("docs", DayRange(MONDAY + 1, MONDAY + 3)).totals.human == 1
    assert store.count_visitors_by_page("docs", DayRange(MONDAY + 3, MONDAY + 4)).totals.human == 0


def test_agents_list_every_class_but_visitors_only_humans_and_ai(store: Store) -> None:
    log_and_fold(
        store,
        make_view(kind="search", agent="Finder"),
        make_view(kind="search", agent="Finder", visitor=2),
        make_view(),
    )
    rows, more = store.list_agents("docs")
    assert [(row.agent, row.kind, row.visitors, row.views) for row in rows] == [
        ("Finder", "search", 2, 2),
        (None, "human", 1, 1),
    ]
    assert not more
    assert store.count_visitors_by_page("docs").totals == Counts(human=1, ai=0, total=1)


@pytest.mark.deep
def test_rules_of_an_agent_are_available_until_raw_views_are_dropped(store: Store) -> None:
    reader = partial(make_view, kind="assistant", agent="Reader")
    log_and_fold(
        store,
        reader(rule="token:reader", agent_table_version="1"),
        reader(rule="token:reader", agent_table_version="2"),
    )
    log_and_fold(store, reader(rule="range:example", day=MONDAY + 1), make_view(rule="browser", project="other"))
    store.log_views([reader(rule="signed")])
    by_token, by_range = (
        RuleRow("Reader", "Example", "assistant", rule, n) for rule, n in (("token:reader", 2), ("range:example", 1))
    )
    assert list(store.list_rules("docs")) == [by_token, by_range]
    assert list(store.list_rules("docs", DayRange(MONDAY + 1, MONDAY + 2))) == [by_range]
    assert list(store.list_rules("docs", limit=1)) == [by_token]
    assert list(store.list_rules("nobody")) == []
    store.delete_raw_views(MONDAY + 1)
    assert list(store.list_rules("docs"))[-1] == by_range


@pytest.mark.deep
def test_changed_ai_classes_apply_to_past_views(store: Store) -> None:
    log_and_fold(store, make_view(kind="search"), make_view(kind="assistant", visitor=2), make_view(visitor=3))
    store.set_ai_classes("docs", {"search"})
    assert store.count_visitors_by_page("docs").totals == Counts(human=1, ai=1, total=2)
    assert store.count_views_by_page("docs").totals == Counts(human=1, ai=1, total=2)
    log_and_fold(store, make_view(kind="search", visitor=4))
    store.set_ai_classes("docs", {"search", "assistant"})
    assert store.count_visitors_by_page("docs").totals == Counts(human=1, ai=3, total=4)


def test_ai_classes_can_be_set_before_the_first_view(store: Store) -> None:
    store.set_ai_classes("docs", {"training"})
    log_and_fold(store, make_view(kind="training"))
    assert store.count_visitors_by_page("docs").totals == Counts(human=0, ai=1, total=1)


@pytest.mark.deep
def test_a_visitor_is_counted_once_in_each_interval(store: Store) -> None:
    log_and_fold(
        store, make_view(day=MONDAY - 1), make_view(day=MONDAY), make_view(day=MONDAY + 6), make_view(day=MONDAY + 7)
    )
    one, two = Counts(1, 0, 1), Counts(2, 0, 2)
    assert list(store.load_timeseries("docs", "week")) == [
        TimeseriesPoint(MONDAY - 7, one, one), TimeseriesPoint(MONDAY, one, two), TimeseriesPoint(MONDAY + 7, one, one)
    ]  # fmt: skip
    assert list(store.load_timeseries("docs", "month")) == [TimeseriesPoint(MONDAY - 4, one, Counts(4, 0, 4))]
    assert list(store.load_timeseries("docs", "week", DayRange(MONDAY + 3, MONDAY + 7))) == [
        TimeseriesPoint(MONDAY, one, one)
    ]


@pytest.mark.deep
def test_projects_do_not_see_each_other(store: Store) -> None:
    log_and_fold(store, make_view(), make_view(project="other"), make_view("/x", project="other", visitor=2))
    assert store.count_visitors_by_page("docs").rows == [PageCounts("/", Counts(1, 0, 1))]
    assert store.count_visitors_by_page("other").totals.total == 2


@pytest.mark.deep
def test_dropping_raw_views_changes_no_number(store: Store) -> None:
    log_and_fold(store, make_view(day=MONDAY), make_view(day=MONDAY + 1, event=5))
    store.log_views([make_view(day=MONDAY, visitor=2)])
    assert store.delete_raw_views(MONDAY + 1) == 1
    assert store.delete_raw_views(MONDAY + 2) == 1
    store.fold()
    store.rebuild_index()
    assert store.count_visitors_by_page("docs").totals.human == 2
    assert store.count_views_by_page("docs").totals.human == 3
    assert store.log_views([make_view(event=5)]) == LogResult(0, (0,))


@pytest.mark.deep
def test_deleted_project_leaves_no_data_and_can_start_again(store: Store) -> None:
    log_and_fold(store, make_view(event=1), make_view(project="other", event=1))
    store.log_views([make_view(event=2)])
    store.forget_project("docs")
    store.forget_project("unheard-of")
    store.fold()
    assert store.count_visitors_by_page("docs").totals == Counts()
    assert store.count_visitors_by_page("other").totals.total == 1
    assert store.log_views([make_view(event=1), make_view(event=2)]) == LogResult(2)
    store.fold()
    assert store.count_visitors_by_page("docs").totals.total == 1


@pytest.mark.deep
def test_views_of_a_deleted_visitor_stay_without_a_visitor(store: Store) -> None:
    log_and_fold(store, make_view(), make_view("/x", day=MONDAY + 1), make_view(visitor=2))
    store.log_views([make_view(visitor=1, day=MONDAY + 2)])
    store.forget_visitor("docs", 1)
    store.fold()
    assert store.count_visitors_by_page("docs").totals == Counts(1, 0, 1)
    assert store.count_views_by_page("docs").totals.human == 4
    store.rebuild_index()
    assert store.count_visitors_by_page("docs").totals == Counts(1, 0, 1)


def test_view_with_invalid_day_refuses_its_whole_batch(store: Store) -> None:
    with pytest.raises(DayOutOfRange):
        store.log_views([make_view(), make_view(day=0)])
    with pytest.raises(DayOutOfRange):
        store.log_views([make_view(day=65_535)])
    assert store.backlog() == 0


@pytest.mark.deep
def test_backup_of_a_running_store_can_be_opened(
    store: Store, open_store: Callable[[Path], Store], tmp_path: Path
) -> None:
    log_and_fold(store, make_view(event=1), make_view(visitor=2))
    store.log_views([make_view(visitor=3)])
    (folder := tmp_path / "it's a copy").mkdir()
    store.back_up(folder / "analytics.duckdb")
    log_and_fold(store, make_view(visitor=4))
    copy = open_store(folder)
    assert copy.count_visitors_by_page("docs").totals.total == 2
    assert copy.log_views([make_view(event=1)]) == LogResult(0, (0,))
    copy.fold()
    assert copy.count_visitors_by_page("docs").totals.total == 3
    copy.close()


@pytest.mark.deep
def test_logged_and_folded_views_survive_a_restart(open_store: Callable[[Path], Store], tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log_and_fold(store, make_view(event=1))
    store.log_views([make_view(visitor=2, event=2)])
    store.close()
    store = open_store(tmp_path)
    assert store.backlog() == 1
    assert store.log_views([make_view(event=1), make_view(event=2)]) == LogResult(0, (0, 1))
    store.fold()
    assert store.count_visitors_by_page("docs").totals.total == 2
    store.close()
