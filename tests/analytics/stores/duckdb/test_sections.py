"""Sections are counted alike from the index, from visits in memory, and from visits that do not fit into it."""

import random
from pathlib import Path

import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding import section_visitors
from copydesk.analytics.stores.report_rows import SectionReport
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

QUERIES = [SectionQuery(prefix, depth) for prefix, depth in (("", 1), ("", 3), ("/a", 2), ("/a/b", 3), ("/a/b", 4))]
RANGES = [DayRange(), DayRange(MONDAY, MONDAY + 3), DayRange(MONDAY + 4, MONDAY + 5), DayRange(MONDAY + 90)]


def make_views() -> list[PageView]:
    chance = random.Random(7)
    paths = ("/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/e/f?x=1", "/a/g/h", "/i/j/k", "/i/j/l", "/m")
    kinds = (VisitorClass.HUMAN, VisitorClass.HUMAN, VisitorClass.ASSISTANT, VisitorClass.SEARCH)
    return [
        make_view(
            chance.choice(paths),
            kind=chance.choice(kinds),
            day=MONDAY + chance.randrange(7),
            visitor=chance.randrange(40),
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
    model = ReferenceStore()
    model.log_views(views)
    model.fold()
    expected = list_all(model)
    assert any(row.section == "/a/b/c" and row.count.ai for report in expected for row in report.rows)
    store = DuckStore(tmp_path / "a.duckdb")
    log_and_fold(store, *views)
    assert list_all(store) == expected
    monkeypatch.setattr(section_visitors, "MAX_VISITS_IN_MEMORY", 20)
    assert list_all(store) == expected
    assert {file.name for file in tmp_path.iterdir()} <= {"a.duckdb", "a.duckdb.wal", "a.duckdb.visits", "a.duckdb.tmp"}
    store.close()
