"""A process may die at any statement of a change: a decided change is completed, an undecided one has no effect."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from copydesk.analytics.stores.base import ALL_DAYS, Reclassification, Store
from copydesk.analytics.stores.clickhouse.folding.apply_correction import CORRECTION_TABLES
from copydesk.analytics.stores.report_rows import ReportPage
from tests.analytics.stores.clickhouse.faults import kill_at_statement
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view
from tests.support.clickhouse_store import FolderClickHouseStore
from tests.support.drills import mark_drills

pytestmark = pytest.mark.deep

FIRST = [
    make_view(event=1),
    make_view("/a", visitor=2, event=2),
    make_view("/a", MONDAY + 3, kind="search", agent="Finder"),
    make_view("/gone")._replace(status=404, referrer="example.org"),
]
SECOND = [
    make_view("/a", MONDAY + 1, event=3),
    make_view(visitor=3, event=4),
    make_view(visitor=None),
    make_view(project="other"),
    make_view("/gone", MONDAY + 1, visitor=2, kind="assistant")._replace(status=410, referrer="example.org"),
]
STATEMENTS = 14
"""Statements of a fold: staging, seven tables to add to, four marks, the final mark, and dropping the staged rows."""
POINTS = list(product(range(STATEMENTS), (False, True)))


def assert_same_reports(store: Store, model: ReferenceStore) -> None:
    for project in ("docs", "other"):
        assert with_row_list(store.count_visitors_by_page(project)) == with_row_list(
            model.count_visitors_by_page(project, ALL_DAYS, 50, 0)
        )
        assert with_row_list(store.count_views_by_page(project)) == with_row_list(
            model.count_views_by_page(project, ALL_DAYS, 50, 0)
        )
        assert store.list_missing_pages(project) == model.list_missing_pages(project, ALL_DAYS, 50, 0)
        assert store.list_agents(project) == model.list_agents(project, ALL_DAYS, 50, 0)
        assert list(store.load_timeseries(project, "day")) == model.load_timeseries(project, "day", ALL_DAYS)


def with_row_list(page: ReportPage) -> ReportPage:
    return replace(page, rows=list(page.rows))


def fill_store(store: Store) -> ReferenceStore:
    """Fills a store with folded and with logged views."""
    model = ReferenceStore()
    assert store.log_views(FIRST) == model.log_views(FIRST)
    assert store.fold() == model.fold()
    assert store.log_views(SECOND) == model.log_views(SECOND)
    return model


@pytest.mark.parametrize(("step", "is_done"), mark_drills(POINTS, default=[(0, True), (3, False)]))
def test_a_fold_killed_at_any_statement_counts_everything_once(
    store: FolderClickHouseStore, step: int, is_done: bool
) -> None:
    model = fill_store(store)
    with kill_at_statement(step, is_done) as sent:
        store.fold()
    assert len(sent) == step + 1
    store.fold()
    model.fold()
    assert_same_reports(store, model)
    assert store.backlog() == 0
    assert sum(row.views for row in store.list_rules("docs")) == 6
    assert store.log_views([*FIRST, *SECOND]).duplicates == (0, 1, 4, 5)
    store.rebuild_index()
    assert_same_reports(store, model)


def test_crash_tests_cover_every_statement_of_a_fold(store: FolderClickHouseStore) -> None:
    fill_store(store)
    with kill_at_statement(-1, is_done=False) as sent:
        store.fold()
    assert len(sent) == STATEMENTS


def forget_visitor(store: FolderClickHouseStore | ReferenceStore) -> None:
    store.forget_visitor("docs", 1)


def forget(store: FolderClickHouseStore | ReferenceStore) -> None:
    store.forget_project("other")


def count_as_ai(store: FolderClickHouseStore | ReferenceStore) -> None:
    if isinstance(store, ReferenceStore):
        store.ai["docs"] = frozenset({"search"})
    else:
        store.set_ai_classes("docs", {"search"})


UPKEEP = list(product((forget_visitor, forget, count_as_ai), range(12), (False, True)))


@pytest.mark.parametrize(("act", "step", "is_done"), mark_drills(UPKEEP, default=[(forget_visitor, 2, True)]))
def test_maintenance_killed_at_any_statement_is_atomic(
    store: FolderClickHouseStore,
    act: Callable[[FolderClickHouseStore | ReferenceStore], None],
    step: int,
    is_done: bool,
) -> None:
    model = fill_store(store)
    with kill_at_statement(step, is_done) as sent:
        act(store)
    if any("insert into firsts" in statement for statement in sent):
        act(model)
    assert store.fold() == model.fold()
    assert_same_reports(store, model)
    store.rebuild_index()
    assert_same_reports(store, model)


FINDER = Reclassification("rule", "Finder", "Example", "search", "token:Finder", "Finder", "Example", "assistant")
BROWSER = Reclassification("rule", "", "", "human", "rule", "Finder", "Example", "search")
"""Gives views the class that FINDER changes: a view must not be changed twice."""


def withdraw(store: FolderClickHouseStore | ReferenceStore) -> None:
    store.withdraw_views("docs", [1, 3, 99])


def reclassify(store: FolderClickHouseStore | ReferenceStore) -> None:
    store.reclassify_views("docs", [FINDER, BROWSER], "2")


MAX_CORRECTION_STATEMENTS = 32
CORRECTIONS = list(product((withdraw, reclassify), range(MAX_CORRECTION_STATEMENTS), (False, True)))


@pytest.mark.parametrize(
    ("act", "step", "is_done"), mark_drills(CORRECTIONS, default=[(withdraw, 9, True), (reclassify, 13, True)])
)
def test_correction_killed_at_any_statement_is_atomic(
    store: FolderClickHouseStore,
    act: Callable[[FolderClickHouseStore | ReferenceStore], None],
    step: int,
    is_done: bool,
) -> None:
    model = fill_store(store)
    assert store.fold() == model.fold()
    with kill_at_statement(step, is_done) as sent:
        act(store)
    assert len(sent) < MAX_CORRECTION_STATEMENTS
    if any("insert into firsts" in statement for statement in sent):
        act(model)
    store.fold()
    assert_same_reports(store, model)
    assert set(store.list_rules("docs")) == model.list_rules("docs")
    store.delete_raw_views(0, [])
    log_and_fold(store, make_view(project="third"))
    store.delete_raw_views(0, [])
    for table in CORRECTION_TABLES:
        assert store._cluster.reader.query(f"select count() from {table}") == [(0,)]
    assert store.log_views([*FIRST, *SECOND]).duplicates == model.log_views([*FIRST, *SECOND]).duplicates
    assert store.fold() == model.fold()
    store.rebuild_index()
    assert_same_reports(store, model)
