"""Compaction merges rows with the same key, and reads only the days since the first one with new rows."""

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from copydesk.analytics.page_view import VisitorClass
from copydesk.analytics.stores.base import ALL_DAYS, CLASS_BITS, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding import compaction, visitor_index
from copydesk.analytics.stores.duckdb.folding.compaction import compact_tables
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.core.clock import DAY
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import log_and_fold, make_view
from tests.analytics.stores.duckdb.writer import SHORT_RUNS, make_batch

FIRST_DAY = 20_458
KEYS = {"firsts": "scope, day, prev", "counts": "scope, day, kind"}
Row = tuple[int, ...]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore(tmp_path / "a.duckdb", run_sizes=SHORT_RUNS)
    yield opened
    opened.close()


def fold_day(store: DuckStore, day: int, batch: int) -> None:
    """Logs and folds a batch whose views are all of one day."""
    store.log_views([view._replace(at=day * DAY) for view in make_batch(batch)])
    store.fold()


def read_rows(store: DuckStore, table: str) -> list[Row]:
    """Returns the rows in the order in which they are stored."""
    with store._database.read() as connection:
        return connection.execute("from query_table($table)", {"table": table}).fetchall()


def count_repeated_keys(store: DuckStore, table: str) -> int:
    with store._database.read() as connection:
        statement = f"select 1 from {table} group by {KEYS[table]} having count(*) > 1"
        return len(connection.execute(statement).fetchall())


def compact_all(store: DuckStore) -> bool:
    """Returns whether there were new rows to compact."""
    return compact_tables(store._database, max_new_rows=0)


@pytest.mark.deep
def test_only_days_since_the_first_one_with_new_rows_are_rewritten(
    store: DuckStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    for batch in range(10):
        fold_day(store, FIRST_DAY + batch // 2, batch)
    compact_all(store)
    before = {table: read_rows(store, table) for table in KEYS}
    for batch in range(10, 14):
        fold_day(store, FIRST_DAY + batch // 2 - 1, batch)  # the first of these is the last day that is compacted
    assert all(count_repeated_keys(store, table) for table in KEYS)

    def load(name: str) -> str:
        statements.append(name)
        return load_sql(name)

    monkeypatch.setattr(compaction, "load_sql", load)
    compact_all(store)
    assert {"tidy_firsts", "tidy_counts"} <= set(statements)
    for table, rows in before.items():
        assert count_repeated_keys(store, table) == 0
        unchanged = [row for row in rows if row[2] < FIRST_DAY + 4]
        assert read_rows(store, table)[: len(unchanged)] == unchanged


@pytest.mark.deep
def test_new_rows_of_earlier_days_are_merged(store: DuckStore) -> None:
    for batch in range(10):
        fold_day(store, FIRST_DAY + batch, batch)
    compact_all(store)
    fold_day(store, FIRST_DAY + 11, 10)
    fold_day(store, FIRST_DAY + 3, 11)
    fold_day(store, FIRST_DAY + 3, 12)
    assert all(count_repeated_keys(store, table) for table in KEYS)
    compact_all(store)
    for table in KEYS:
        assert count_repeated_keys(store, table) == 0
    assert not compact_all(store)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_reports_stay_exact_and_no_key_repeats_whatever_happens_between_compactions(
    store: DuckStore, seed: int
) -> None:
    chance, model = random.Random(seed), ReferenceStore()
    for batch in range(40):
        day = FIRST_DAY + (batch // 3 if chance.random() < 0.8 else chance.randrange(20))
        project = chance.choice(("docs", "handbook"))
        views = [view._replace(at=day * DAY, project=project) for view in make_batch(batch)]
        for each in (store, model):
            each.log_views(views)
            each.fold()
        what = chance.random()
        if what < 0.15:
            events = [view.event for view in views[: chance.randrange(1, 20)] if view.event is not None]
            assert store.withdraw_views(project, events) == model.withdraw_views(project, events)
        elif what < 0.25:
            store.rebuild_index()
        elif what < 0.3:
            store.forget_project(project)
            model.forget_project(project)
        elif what < 0.35:
            classes = chance.sample(sorted(CLASS_BITS), 2)
            store.set_ai_classes(project, classes)
            model.ai[project] = frozenset(classes)
        elif what < 0.6:
            compact_all(store)
            assert [count_repeated_keys(store, table) for table in KEYS] == [0, 0]
    for project in ("docs", "handbook"):
        found = store.count_visitors_by_page(project, ALL_DAYS, 50, 0)
        assert found == model.count_visitors_by_page(project, ALL_DAYS, 50, 0)


@pytest.mark.deep
def test_sections_that_were_indexed_leave_no_repeated_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MIN_NEW_ROWS", 0)
    monkeypatch.setattr(compact_tables, "__defaults__", (0, None))
    store = DuckStore(tmp_path / "b.duckdb", run_sizes=SHORT_RUNS, min_indexed_views=0)
    for batch in range(20):
        fold_day(store, FIRST_DAY + batch, batch)
    before = len(read_rows(store, "firsts"))
    store.list_sections("docs", query=SectionQuery("/3", 2))
    store.wait_for_sections()
    assert len(read_rows(store, "firsts")) > before
    assert count_repeated_keys(store, "firsts") == 0
    store.close()


def test_visitors_who_come_again_are_counted_once_after_a_compaction(store: DuckStore) -> None:
    [view, *_] = make_batch(0)
    for number in range(3):
        later = view._replace(at=(FIRST_DAY + number) * DAY, event=number, kind=VisitorClass.HUMAN)
        store.log_views([later])
        store.fold()
        compact_all(store)
    assert store.count_visitors_by_page("docs", ALL_DAYS).totals.total == 1


@pytest.mark.deep
def test_rows_of_earlier_folds_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitor_index, "MAX_FOLD_ROWS", 3)
    path = tmp_path / "a.duckdb"
    for start in range(2):
        store = DuckStore(path)
        for number in range(5):
            log_and_fold(store, make_view(visitor=10 * start + number + 1))
            assert store.backlog() == 0
        store.close()
        with duckdb.connect(str(path)) as connection:
            rows = connection.execute("select upto from folds order by upto").fetchall()
            assert rows == [(5 * start + 4,), (5 * start + 5,)]
    store = DuckStore(path)
    assert store.count_views_by_page("docs").totals.total == 10
    store.close()
