"""All sections of a large project are in the index before a report asks for them, also those that appear later."""

import random
import shutil
from collections import namedtuple
from collections.abc import Collection
from pathlib import Path

import duckdb
import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.ids import scopes, section_ids
from copydesk.analytics.stores.duckdb.log import view_log
from copydesk.analytics.stores.duckdb.reports import section_reports
from copydesk.analytics.stores.duckdb.sections import section_indexer, section_search
from copydesk.analytics.stores.errors import StoreFull
from copydesk.analytics.stores.report_rows import SectionReport
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view
from tests.analytics.stores.duckdb.test_sections import (
    count_incomplete,
    forbid_reading_visits,
    list_all,
    list_stored_sections,
    make_expected,
    make_views,
)
from tests.analytics.stores.duckdb.writer import SHORT_RUNS

pytestmark = pytest.mark.deep

MIN_LARGE_VIEWS = 100
DEEPER_WITH_PAGES = ["/a/b", "/a/b/c", "/i/j"]
"""The deeper sections of `make_views` that have at least two pages."""
FIRST_LEVEL = ["/a", "/i", "/m"]
DiskUsage = namedtuple("DiskUsage", ["total", "used", "free"])


@pytest.fixture(autouse=True)
def search_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_search, "PAUSE_FACTOR", 0)
    monkeypatch.setattr(section_search, "SEARCHES_PER_MIN_VIEWS", 1_000)
    monkeypatch.setattr(section_indexer, "VISITS_PER_TRANSACTION", 30)
    monkeypatch.setattr(section_indexer, "VISITS_PER_GROUP", 100)
    monkeypatch.setattr(section_indexer, "PAUSE_SECONDS", 0.0)


def open_store(folder: Path, min_large_views: int = MIN_LARGE_VIEWS) -> DuckStore:
    return DuckStore(folder / "a.duckdb", run_sizes=SHORT_RUNS, min_large_views=min_large_views)


def open_large_store(folder: Path, *views: PageView) -> DuckStore:
    """Returns a store with a large project whose sections are indexed."""
    store = open_store(folder)
    log_and_fold(store, *views)
    store.wait_for_sections()
    return store


def stop_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the indexing of sections in the background, so that only new pages add them."""
    monkeypatch.setattr(section_search.SectionSearch, "is_due", lambda _: False)


def test_first_report_of_a_large_project_reads_its_sections_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views()
    store = open_large_store(tmp_path, *views)
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views)
    store.close()
    assert list_stored_sections(tmp_path / "a.duckdb") == sorted([*FIRST_LEVEL, *DEEPER_WITH_PAGES])


def test_sections_of_a_small_project_are_not_indexed(tmp_path: Path) -> None:
    store = open_store(tmp_path, min_large_views=401)
    log_and_fold(store, *make_views())
    log_and_fold(store, *(make_view(f"/x/y/{number}", project="other") for number in range(300)))
    store.wait_for_sections()
    store.log_views([make_view("/a/new/page", project="docs")])
    store.close()
    assert list_stored_sections(tmp_path / "a.duckdb") == sorted([*FIRST_LEVEL, "/x"])


def test_project_becomes_large_while_views_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = make_views()
    store = open_store(tmp_path, min_large_views=len(views))
    log_and_fold(store, *views[:-1])
    store.wait_for_sections()
    assert list_all(store) == make_expected(*views[:-1])
    log_and_fold(store, views[-1])
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views)
    store.close()


def test_store_without_deeper_sections_is_indexed_when_it_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views()
    store = open_store(tmp_path, min_large_views=1_000_000)
    log_and_fold(store, *views)
    store.close()
    store = open_store(tmp_path)
    store.prepare_logging()
    store.close()  # waits for the preparation
    store = open_store(tmp_path)
    store.fold()
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views)
    store.close()


def test_new_section_of_a_large_project_is_indexed_from_its_first_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views()
    store = open_large_store(tmp_path, *views)
    stop_searches(monkeypatch)
    forbid_reading_visits(monkeypatch)
    paths = ("/a/new/x", "/a/new/y/z", "/a/new", "/a/b/c/new/x", "/a/b/c/new/y", "//n//o//p", "/n/o/q?r=/s/t")
    new_views = [make_view(path, visitor=visitor) for visitor in (1, 77, 78) for path in paths]
    for view in new_views[: len(paths)]:
        store.log_views([view])
    store.fold()
    assert list_all(store) == make_expected(*views, *new_views[: len(paths)])
    log_and_fold(store, *new_views[len(paths) :])
    assert list_all(store) == make_expected(*views, *new_views)
    store.rebuild_index()
    assert list_all(store) == make_expected(*views, *new_views)
    store.close()
    new = ["/a/b/c/new", "/a/new", "/a/new/y", "/n", "/n/o"]
    assert list_stored_sections(tmp_path / "a.duckdb") == sorted([*FIRST_LEVEL, *DEEPER_WITH_PAGES, *new])


def test_new_section_with_an_earlier_page_is_indexed_with_the_visits_of_that_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [*make_views(), *(make_view("/a/p", visitor=visitor) for visitor in range(20, 60))]
    store = open_large_store(tmp_path, *views)
    new_views = [make_view("/a/p/q", visitor=visitor) for visitor in range(50, 70)]
    store.log_views(new_views)
    assert list_all(store) == make_expected(*views)
    store.fold()
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views, *new_views)
    store.close()
    assert "/a/p" in list_stored_sections(tmp_path / "a.duckdb")


def test_section_with_an_earlier_page_is_counted_from_visits_until_it_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [*make_views(), *(make_view("/a/p", visitor=visitor) for visitor in range(20, 60))]
    store = open_large_store(tmp_path, *views)
    stop_searches(monkeypatch)
    new_views = [make_view(path, visitor=visitor) for visitor in range(50, 70) for path in ("/a/p/q", "/a/p/r/s")]
    log_and_fold(store, *new_views)
    assert list_all(store) == make_expected(*views, *new_views)
    store.close()
    stored = list_stored_sections(tmp_path / "a.duckdb")
    assert "/a/p/r" in stored
    assert "/a/p" not in stored


def test_page_in_a_section_with_an_earlier_page_starts_a_search_before_many_views_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [*make_views(), make_view("/a/p"), make_view("/a/r")]
    monkeypatch.setattr(section_search, "SEARCHES_PER_MIN_VIEWS", 0.001)
    store = open_large_store(tmp_path, *views)
    log_and_fold(store, make_view("/a/p"))
    store.wait_for_sections()
    log_and_fold(store, make_view("/a/p/q", visitor=2))
    store.wait_for_sections()
    forbid_reading_visits(monkeypatch)
    assert list_all(store) == make_expected(*views, make_view("/a/p"), make_view("/a/p/q", visitor=2))
    store.close()


def test_as_many_sections_as_fit_into_the_limit_are_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outer sections are first, and of the same depth those with the most views."""
    monkeypatch.setattr(section_indexer, "MAX_DEEPER_SECTIONS", 2)
    popular = [make_view(f"/i/j/{number % 2}", visitor=number) for number in range(500)]
    views = [*make_views(), make_view("/a/g/h/i"), make_view("/a/g/h/j"), *popular]
    store = open_large_store(tmp_path, *views)
    assert list_all(store) == make_expected(*views)
    new_views = [make_view("/a/new/x/y"), make_view("/a/new/x/z")]
    log_and_fold(store, *new_views)
    store.wait_for_sections()
    assert list_all(store) == make_expected(*views, *new_views)
    store.close()
    stored = list_stored_sections(tmp_path / "a.duckdb")
    assert set(stored) - {"/a/new", "/a/new/x"} == {*FIRST_LEVEL, "/a/b", "/i/j"}


def test_new_pages_leave_room_for_sections_with_several_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_ids, "MAX_SECTIONS_OF_NEW_PAGES", len(DEEPER_WITH_PAGES) + 2)
    views = make_views()
    store = open_large_store(tmp_path, *views)
    new_views = [make_view(f"/a/{number}/x/y", visitor=number) for number in range(50)]
    for view in new_views:
        store.log_views([view])
    store.fold()
    store.wait_for_sections()
    assert list_all(store) == make_expected(*views, *new_views)
    assert len(list_deeper(store)) == len(DEEPER_WITH_PAGES) + 2
    log_and_fold(store, make_view("/a/49/x/z"))
    store.wait_for_sections()
    assert list_deeper(store) >= {"/a/49", "/a/49/x"}
    store.close()


def list_deeper(store: DuckStore) -> set[str]:
    with store._database.read() as connection:
        rows = connection.execute("select path from scopes where sort = 32").fetchall()
    return {path for (path,) in rows if path.count("/") > 1}


def test_views_that_could_not_be_logged_leave_no_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = make_views()
    store = open_large_store(tmp_path, *views)
    deeper = list_deeper(store)

    def refuse_views(connection: duckdb.DuckDBPyConnection, table: str, columns: list[str], rows: list[object]) -> None:
        if table == "views":
            raise StoreFull
        scopes.append_rows(connection, table, columns, rows)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(view_log, "append_rows", refuse_views)
        with pytest.raises(StoreFull):
            store.log_views([make_view("/a/new/x"), make_view("/a/new/y")])
    assert list_deeper(store) == deeper
    new_views = [make_view("/a/new/z"), make_view("/a/new/x", visitor=3)]
    log_and_fold(store, *new_views)
    assert list_deeper(store) == {*deeper, "/a/new"}
    assert list_all(store) == make_expected(*views, *new_views)
    store.close()


def test_nearly_full_disk_is_reported_once_and_defers_indexing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    views = make_views()
    monkeypatch.setattr(section_search, "MAX_PAUSE_SECONDS", 0)
    store = open_store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: DiskUsage(10**9, 10**9, 10))
        for first in range(0, 400, 100):
            log_and_fold(store, *views[first : first + 100])
            store.wait_for_sections()
        assert list_all(store) == make_expected(*views)
        assert list_deeper(store) == set()
    assert caplog.text.count("not indexing sections: 0 MB are free") == 1
    store.fold()
    store.wait_for_sections()
    assert list_deeper(store) == set(DEEPER_WITH_PAGES)
    store.close()


def test_project_that_was_deleted_and_created_again_is_small(tmp_path: Path) -> None:
    store = open_large_store(tmp_path, *make_views())
    store.forget_project("docs")
    views = [make_view("/a/b/c"), make_view("/a/b/d"), make_view("/a/e/f")]
    log_and_fold(store, *views)
    store.wait_for_sections()
    assert list_all(store) == make_expected(*views)
    assert list_deeper(store) == set()
    store.close()


def test_new_section_around_one_without_pages_is_counted_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report about a project that was deleted and created again may have asked for a section without pages."""
    views = make_views()
    store = open_large_store(tmp_path, *views)
    store._section_indexer.request("docs", ["/a/x/y"])
    store.wait_for_sections()
    stop_searches(monkeypatch)
    new_views = [make_view("/a/x/z"), make_view("/a/x/y/u", visitor=77), make_view("/a/x/y/v", visitor=78)]
    for view in new_views:
        log_and_fold(store, view)
    assert "/a/x/y" in list_deeper(store)
    assert list_all(store) == make_expected(*views, *new_views)
    store.close()


class Drill:
    """A store and the reference, with the same random operations."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.store, self.model = open_store(folder), ReferenceStore()
        self.last_event = 0

    def log(self) -> None:
        views = [self.make_view() for _ in range(self.chance.choice((1, 3, 20)))]
        assert self.store.log_views(views) == self.model.log_views(views)

    def make_view(self) -> PageView:
        """Returns a view of a page that is new more and more rarely, with one to five segments."""
        self.last_event += 1
        names = "abc" if self.chance.random() < 0.9 else "abcdefgh"
        path = "".join(f"/{self.chance.choice(names)}" for _ in range(self.chance.randrange(6))) or "/"
        return make_view(
            path + self.chance.choice(("", "", "", "?q=1")),
            day=MONDAY + self.chance.randrange(9),
            kind=self.chance.choice((VisitorClass.HUMAN, VisitorClass.HUMAN, VisitorClass.ASSISTANT)),
            visitor=self.chance.choice((None, *range(30))),
            event=self.last_event,
            project=self.chance.choice(("docs", "docs", "docs", "other")),
        )

    def fold(self) -> None:
        assert self.store.fold() == self.model.fold()

    def withdraw(self) -> None:
        self.fold()
        events = self.chance.sample(range(1, self.last_event + 2), min(5, self.last_event))
        assert self.store.withdraw_views("docs", events) == self.model.withdraw_views("docs", events)

    def forget_visitor(self) -> None:
        visitor = self.chance.randrange(30)
        self.store.forget_visitor("docs", visitor)
        self.model.forget_visitor("docs", visitor)

    def forget_project(self) -> None:
        project = self.chance.choice(("docs", "other", "other"))
        self.store.forget_project(project)
        self.model.forget_project(project)

    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self.folder)

    def rebuild(self) -> None:
        self.store.rebuild_index()

    def wait(self) -> None:
        self.store.wait_for_sections()

    def compare(self) -> None:
        first = MONDAY + self.chance.randrange(9)
        days = self.chance.choice((DayRange(), DayRange(first, first + 3)))
        prefix = "".join(f"/{self.chance.choice('abc')}" for _ in range(self.chance.randrange(4)))
        query = SectionQuery(prefix, prefix.count("/") + self.chance.choice((1, 1, 2)))
        for project in ("docs", "other"):
            report = self.store.list_sections(project, days, 1000, 0, query)
            found = SectionReport(report.totals, report.views, list(report.rows), report.has_more)
            assert found == self.model.list_sections(project, days, 1000, 0, query)

    def compare_after_indexing(self) -> None:
        """Compares, and checks that no report of a large project reads visits."""
        for _ in range(2):  # the thread that ran during the first fold may have searched before it
            self.log()
            self.fold()
            self.wait()
        for project in self.list_large():
            for query in (SectionQuery("", 2), SectionQuery("/a", 2), SectionQuery("/a/b", 3), SectionQuery("", 4)):
                report = section_reports.list_sections(self.store._database, project, DayRange(), 1000, 0, query)
                assert report[1].read_views == 0
        self.compare()

    def list_large(self) -> Collection[str]:
        views = [view.project for view in self.model.folded]
        return [project for project in ("docs", "other") if views.count(project) >= MIN_LARGE_VIEWS]


@pytest.mark.parametrize("seed", range(3))
def test_reports_stay_exact_while_sections_of_large_projects_are_indexed(tmp_path: Path, seed: int) -> None:
    drill = Drill(tmp_path, seed)
    weights = {
        drill.log: 10, drill.fold: 8, drill.compare: 8, drill.wait: 2, drill.compare_after_indexing: 2,
        drill.withdraw: 2, drill.forget_visitor: 1, drill.restart: 1, drill.rebuild: 0.3, drill.forget_project: 0.2,
    }  # fmt: skip
    for act in drill.chance.choices(list(weights), list(weights.values()), k=250):
        act()
    drill.compare_after_indexing()
    drill.store.close()
    assert count_incomplete(tmp_path / "a.duckdb") == 0
