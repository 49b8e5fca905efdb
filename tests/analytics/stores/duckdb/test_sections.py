"""Sections are counted alike from the index, from visits in memory, and from visits that do not fit into it."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import VisitRuns
from copydesk.analytics.stores.duckdb.folding.visit_rows import SortedVisits, VisitRows
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.reports import section_reports
from copydesk.analytics.stores.duckdb.sections import section_indexer, section_visitors
from copydesk.analytics.stores.duckdb.sections.visitor_groups import split_by_visitor
from copydesk.analytics.stores.errors import StoreFull
from copydesk.analytics.stores.report_rows import SectionReport
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view
from tests.analytics.stores.duckdb.writer import SHORT_RUNS

pytestmark = pytest.mark.deep

QUERIES = [SectionQuery(prefix, depth) for prefix, depth in (("", 1), ("", 3), ("/a", 2), ("/a/b", 3), ("/a/b", 4))]
RANGES = [DayRange(), DayRange(MONDAY, MONDAY + 3), DayRange(MONDAY + 4, MONDAY + 5), DayRange(MONDAY + 90)]


def make_views() -> list[PageView]:
    """Makes views of visitors that are spread over all numbers, as hashes are."""
    chance = random.Random(7)
    paths = ("/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/e/f?x=1", "/a/g/h", "/i/j/k", "/i/j/l", "/m")
    kinds = (VisitorClass.HUMAN, VisitorClass.HUMAN, VisitorClass.ASSISTANT, VisitorClass.SEARCH)
    return [
        make_view(
            chance.choice(paths),
            kind=chance.choice(kinds),
            day=MONDAY + chance.randrange(7),
            visitor=chance.randrange(40) * (2**63 // 40),
        )
        for _ in range(400)
    ]


def list_all(store: DuckStore | ReferenceStore) -> list[SectionReport]:
    reports = [store.list_sections("docs", days, 100, 0, query) for days in RANGES for query in QUERIES]
    return [SectionReport(report.totals, report.views, list(report.rows), report.has_more) for report in reports]


def test_visits_that_exceed_the_memory_are_counted_through_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views()
    expected = make_expected(*views)
    assert any(row.section == "/a/b/c" and row.count.ai for report in expected for row in report.rows)
    store = DuckStore(tmp_path / "a.duckdb")
    log_and_fold(store, *views)
    assert list_all(store) == expected
    monkeypatch.setattr(section_visitors, "MAX_VISITS_IN_MEMORY", 20)
    assert list_all(store) == expected
    assert {file.name for file in tmp_path.iterdir()} <= {"a.duckdb", "a.duckdb.wal", "a.duckdb.visits", "a.duckdb.tmp"}
    store.close()


def make_expected(*views: PageView) -> list[SectionReport]:
    model = ReferenceStore()
    model.log_views(views)
    model.fold()
    return list_all(model)


def forbid_reading_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise AssertionError("the visits were read")

    monkeypatch.setattr(section_reports, "count_section_visitors", fail)


def open_indexing_store(tmp_path: Path, visits_per_transaction: int, monkeypatch: pytest.MonkeyPatch) -> DuckStore:
    monkeypatch.setattr(section_indexer, "VISITS_PER_TRANSACTION", visits_per_transaction)
    monkeypatch.setattr(section_indexer, "VISITS_PER_GROUP", 100)
    monkeypatch.setattr(section_indexer, "VISITS_SORTED_AT_ONCE", 30)
    return DuckStore(tmp_path / "a.duckdb", run_sizes=SHORT_RUNS, min_indexed_views=0)


def count_incomplete(path: Path) -> int:
    with duckdb.connect(str(path), read_only=True) as connection:
        [(rows,)] = connection.execute("select count(*) from incomplete_sections").fetchall()
    return int(rows)


def list_stored_sections(path: Path) -> list[str]:
    with duckdb.connect(str(path), read_only=True) as connection:
        sections = connection.execute("select path from scopes where sort = 32 order by path").fetchall()
    return [section for (section,) in sections]


def test_sections_are_read_from_the_index_once_a_report_has_asked_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views()
    store = open_indexing_store(tmp_path, 50, monkeypatch)
    log_and_fold(store, *views[:200])
    assert list_all(store) == make_expected(*views[:200])
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views[:200])
    log_and_fold(store, *views[200:])
    new_pages = [make_view(path, visitor=visitor) for visitor in (1, 500) for path in ("/a/b/new", "/i/j/new/page")]
    log_and_fold(store, *new_pages)
    assert list_all(store) == make_expected(*views, *new_pages)
    store.rebuild_index()
    assert list_all(store) == make_expected(*views, *new_pages)
    store.close()


def test_files_are_not_kept_open_once_their_visits_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[list[SortedVisits]] = []
    listed: list[int] = []
    left: list[int] = []
    list_sources, add_visits = VisitRuns.list_sources, VisitorIndex.add_visits

    def list_and_keep(visits: VisitRuns) -> list[SortedVisits]:
        sources.append(list_sources(visits))
        listed.append(len(sources[-1]))
        return sources[-1]

    def add_and_count(index: VisitorIndex, connection: DuckConnection, new: VisitRows) -> None:
        left.append(len(sources[-1]))
        add_visits(index, connection, new)

    monkeypatch.setattr(VisitRuns, "list_sources", list_and_keep)
    monkeypatch.setattr(VisitorIndex, "add_visits", add_and_count)
    store = open_indexing_store(tmp_path, 50, monkeypatch)
    log_and_fold(store, *make_views())
    list_all(store)
    store.wait_for_sections()
    store.close()
    assert min(listed) > 2
    assert len(left) > 3
    assert set(left) == {0}


def test_cache_is_released_after_each_transaction_of_the_indexing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(VisitorIndex, "add_visits", lambda *_args: steps.append("add"))
    monkeypatch.setattr(DuckDatabase, "release_memory", lambda _database: steps.append("release"))
    store = open_indexing_store(tmp_path, 5, monkeypatch)
    log_and_fold(store, *make_views())
    list_all(store)
    store.wait_for_sections()
    store.close()
    assert len(steps) > 8
    assert steps == ["add", "release"] * (len(steps) // 2)


def test_report_of_few_views_does_not_ask_for_indexing(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb", min_indexed_views=401)
    log_and_fold(store, *make_views())
    list_all(store)
    store.wait_for_sections()
    store.close()
    assert list_stored_sections(tmp_path / "a.duckdb") == ["/a", "/i", "/m"]


def test_visits_that_are_removed_while_sections_are_indexed_stay_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [view._replace(event=number) for number, view in enumerate(make_views())]
    store = open_indexing_store(tmp_path, 20, monkeypatch)
    log_and_fold(store, *views)
    rounds = []

    def remove_and_split(*args: Any) -> Iterator[Any]:
        groups = list(split_by_visitor(*args))
        rounds.append(len(groups))
        if len(rounds) == 1:  # these visits were read, and are removed before they are added to the sections
            assert store.withdraw_views("docs", range(0, 400, 2)) == 200
        return iter(groups)

    monkeypatch.setattr(section_indexer, "split_by_visitor", remove_and_split)
    list_all(store)
    store.wait_for_sections()
    assert len(rounds) == 2, "the visits were read again"
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views[1::2])
    store.close()


def test_indexing_that_was_stopped_is_completed_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views()
    store = open_indexing_store(tmp_path, 5, monkeypatch)
    monkeypatch.setattr(section_indexer, "PAUSE_SECONDS", 0.05)
    log_and_fold(store, *views)
    expected = store.list_sections("docs", query=SectionQuery("", 3))
    store.close()
    assert count_incomplete(tmp_path / "a.duckdb") > 0
    store = DuckStore(tmp_path / "a.duckdb")
    assert store.list_sections("docs", query=SectionQuery("", 3)) == expected
    store.fold()
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert store.list_sections("docs", query=SectionQuery("", 3)) == expected
    store.close()
    assert count_incomplete(tmp_path / "a.duckdb") == 0


def test_indexing_that_fails_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    views = make_views()
    store = open_indexing_store(tmp_path, 50, monkeypatch)
    log_and_fold(store, *views)
    refuse = Mock(side_effect=StoreFull)
    with monkeypatch.context() as patch:
        patch.setattr(section_indexer, "split_by_visitor", refuse)
        assert list_all(store) == make_expected(*views)
        store.wait_for_sections()
    assert "could not index sections; will retry in 300 seconds" in caplog.text
    store.fold()
    store.wait_for_sections()
    refuse.assert_called_once()
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 301)
    store.fold()
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views)
    store.close()


def test_project_with_very_many_sections_goes_on_counting_them_from_visits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(section_indexer, "MAX_DEEPER_SECTIONS", 1)
    views = make_views()
    store = open_indexing_store(tmp_path, 50, monkeypatch)
    log_and_fold(store, *views)
    assert list_all(store) == make_expected(*views)
    store.wait_for_sections()
    assert list_all(store) == make_expected(*views)
    store.close()
    assert len(list_stored_sections(tmp_path / "a.duckdb")) == len(["/a", "/i", "/m"]) + 1


def test_deleted_project_ends_the_indexing_of_its_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_indexing_store(tmp_path, 5, monkeypatch)
    monkeypatch.setattr(section_indexer, "PAUSE_SECONDS", 0.05)
    views = make_views()
    log_and_fold(store, *views)
    list_all(store)
    store.forget_project("docs")
    store.wait_for_sections()
    assert list_all(store) == make_expected()
    log_and_fold(store, *views)
    assert list_all(store) == make_expected(*views)
    store.close()


def test_sections_of_a_project_that_was_created_again_are_counted_as_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report of the deleted project has asked for `/a/b`, which the new project does not have yet."""
    store = open_indexing_store(tmp_path, 50, monkeypatch)
    log_and_fold(store, *make_views())
    _, visitors = section_reports.list_sections(store._database, "docs", DayRange(), 9, 0, SectionQuery("/a", 2))
    assert "/a/b" in visitors.read_sections
    store.forget_project("docs")
    start = make_view("/", visitor=9)
    log_and_fold(store, start)
    store._section_indexer.request("docs", visitors.read_sections)
    store.wait_for_sections()
    views = [make_view(path, visitor=visitor) for visitor in (1, 2) for path in ("/a/b/c", "/a/b/c/d", "/a")]
    log_and_fold(store, *views)
    assert list_all(store) == make_expected(start, *views)
    store.close()


def test_new_pages_with_very_many_segments_cost_little(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb")
    log_and_fold(store, make_view("/a"))
    began = time.process_time()
    store.log_views([make_view(f"/{number}" + "/a" * 1_000) for number in range(200)])
    assert time.process_time() - began < 3
    store.close()
