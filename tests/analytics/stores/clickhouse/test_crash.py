"""A process may die at any statement of a change: a decided change is completed, an undecided one has no effect."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from copydesk.analytics.stores.base import ALL_DAYS, ReportPage, Store
from tests.analytics.stores.clickhouse.faults import killed_at
from tests.analytics.stores.conformance.model import Model
from tests.analytics.stores.conformance.test_store import MONDAY, view
from tests.support.clickhouse_store import OnClickHouse
from tests.support.drills import drills

FIRST = [view(event=1), view("/a", visitor=2, event=2), view("/a", MONDAY + 3, kind="search", agent="Finder")]
SECOND = [view("/a", MONDAY + 1, event=3), view(visitor=3, event=4), view(visitor=None), view(project="other")]
STATEMENTS = 12
"""Statements of a fold: staging, six tables to add to, three marks, the final mark, and dropping the staged rows."""
POINTS = list(product(range(STATEMENTS), (False, True)))


def agree(store: Store, model: Model) -> None:
    for project in ("docs", "other"):
        assert plain(store.count_visitors_by_page(project)) == plain(
            model.count_visitors_by_page(project, ALL_DAYS, 50, 0)
        )
        assert plain(store.count_views_by_page(project)) == plain(model.count_views_by_page(project, ALL_DAYS, 50, 0))
        assert store.list_agents(project) == model.list_agents(project, ALL_DAYS, 50, 0)
        assert list(store.load_timeseries(project, "day")) == model.load_timeseries(project, "day", ALL_DAYS)


def plain(page: ReportPage) -> ReportPage:
    return replace(page, rows=list(page.rows))


def lived(store: Store) -> Model:
    """Fills a store with folded and with logged views."""
    model = Model()
    for views in (FIRST, SECOND):
        assert store.log_views(views) == model.log_views(views)
        if views is FIRST:
            assert store.fold() == model.fold()
    return model


@pytest.mark.parametrize(("step", "is_done"), drills(POINTS, but=[(0, True), (3, False)]))
def test_a_fold_killed_at_any_statement_counts_everything_once(store: OnClickHouse, step: int, is_done: bool) -> None:
    model = lived(store)
    with killed_at(step, is_done) as sent:
        store.fold()
    assert len(sent) == step + 1
    store.fold()
    model.fold()
    agree(store, model)
    assert store.backlog() == 0
    assert sum(row.views for row in store.list_rules("docs")) == 6
    assert store.log_views([*FIRST, *SECOND]).duplicates == (0, 1, 3, 4)
    store.rebuild_index()
    agree(store, model)


def test_crash_tests_cover_every_statement_of_a_fold(store: OnClickHouse) -> None:
    lived(store)
    with killed_at(-1, is_done=False) as sent:
        store.fold()
    assert len(sent) == STATEMENTS


def forget_visitor(store: OnClickHouse | Model) -> None:
    store.forget_visitor("docs", 1)


def forget(store: OnClickHouse | Model) -> None:
    store.forget_project("other")


def count_as_ai(store: OnClickHouse | Model) -> None:
    if isinstance(store, Model):
        store.ai["docs"] = frozenset({"search"})
    else:
        store.set_ai_classes("docs", {"search"})


UPKEEP = list(product((forget_visitor, forget, count_as_ai), range(12), (False, True)))


@pytest.mark.parametrize(("act", "step", "is_done"), drills(UPKEEP, but=[(forget_visitor, 2, True)]))
def test_maintenance_killed_at_any_statement_is_atomic(
    store: OnClickHouse, act: Callable[[OnClickHouse | Model], None], step: int, is_done: bool
) -> None:
    model = lived(store)
    with killed_at(step, is_done) as sent:
        act(store)
    if any("insert into firsts" in statement for statement in sent):
        act(model)
    assert store.fold() == model.fold()
    agree(store, model)
    store.rebuild_index()
    agree(store, model)
