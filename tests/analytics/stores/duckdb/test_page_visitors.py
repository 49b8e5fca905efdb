"""Visitors are copied by page behind the folds. The copy always contains what the raw views up to its mark contain."""

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import ALL_DAYS, LAST_DAY, DayRange, RawViewLimits, Reclassification
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb import store as store_module
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding import page_visitors
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes, PageVisitors
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.errors import StoreFull
from copydesk.core.clock import DAY
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view
from tests.analytics.stores.duckdb.page_copies import (
    LARGE_PARTS,
    ROW_GROUP,
    fill_store,
    read_differences,
    read_last_copied_number,
)

pytestmark = pytest.mark.deep

MAX_KILLS, PAUSE_GROWTH = 30, 1.2
"""The last process may run a hundred times as long as the first one."""
SMALL_PARTS = CopySizes(min_views=50, views_per_part=20)
PATHS = ("/0", "/1", "/2", "/none")
RANGES = (ALL_DAYS, DayRange(MONDAY + 3, MONDAY + 17), DayRange(MONDAY - 9, MONDAY))
Change = Callable[[DuckStore | ReferenceStore], object]


def make_views(count: int, first_event: int = 0) -> list[PageView]:
    """Makes views of three pages and a missing one over 40 days; some have no visitor."""
    return [
        make_view(
            f"/{number % 7 % 3}", MONDAY + number * 31 % 40, ("human", "assistant", "search")[number % 3],
            number % 13 or None, number, agent=("", "Reader")[number % 2], project=("docs", "other")[number % 10 == 9],
        )._replace(referrer=("", "example.org", "chatgpt.com")[number % 5 % 3], status=404 if number % 17 == 3 else 200)
        for number in range(first_event, first_event + count)
    ]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.duckdb"


def open_stores(path: Path, sizes: CopySizes = SMALL_PARTS) -> tuple[DuckStore, ReferenceStore]:
    """Opens a store with 300 views, most of which are copied, and the model of it."""
    store, model = DuckStore(path, min_summed_views=100, copy_sizes=sizes), ReferenceStore()
    views = make_views(300)
    for first in range(0, len(views), 90):
        log_and_fold(store, *views[first : first + 90])
    model.log_views(views)
    model.fold()
    return store, model


def compare_pages(store: DuckStore, model: ReferenceStore) -> None:
    for days in RANGES:
        for page in PATHS:
            for project in ("docs", "other"):
                assert store.load_page(project, page, days) == model.load_page(project, page, days)


@pytest.mark.parametrize(
    ("sizes", "last_copied"),
    [
        (CopySizes(min_views=7, views_per_part=7), 294),
        (CopySizes(min_views=100, views_per_part=70), 280),
        (CopySizes(min_views=200, views_per_part=200), 200),
        (CopySizes(min_views=301, views_per_part=1), 0),
    ],
)
def test_visitors_are_counted_from_the_copy_and_from_views_after_it(
    path: Path, sizes: CopySizes, last_copied: int
) -> None:
    store, model = open_stores(path, sizes)
    compare_pages(store, model)
    assert store.backlog() == 0
    store.close()
    assert (read_last_copied_number(path), read_differences(path)) == (last_copied, [])


def test_nothing_is_copied_before_the_first_number_of_views_is_folded(path: Path) -> None:
    store = DuckStore(path, copy_sizes=CopySizes(min_views=50, views_per_part=20))
    log_and_fold(store, *make_views(49))
    store.close()
    assert read_last_copied_number(path) == 0
    store = DuckStore(path, copy_sizes=CopySizes(min_views=50, views_per_part=20))
    log_and_fold(store, *make_views(1, 49))
    store.close()
    assert (read_last_copied_number(path), read_differences(path)) == (40, [])


def test_views_that_are_not_folded_change_no_visitors_of_a_page(path: Path) -> None:
    store, model = open_stores(path)
    store.log_views(make_views(30, 300))
    compare_pages(store, model)
    store.close()


def test_questions_about_the_backlog_during_a_copy_do_not_let_it_pass_the_last_folded_view(path: Path) -> None:
    fill_store(path, parts=3)
    sizes = CopySizes(min_views=ROW_GROUP, views_per_part=4 * ROW_GROUP // 5)  # 7.5 parts
    store, is_over = DuckStore(path, copy_sizes=sizes), threading.Event()
    failures: list[Exception] = []

    def ask_repeatedly() -> None:
        try:
            while not is_over.is_set():
                store.backlog()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=ask_repeatedly)
    thread.start()
    while store.backlog():
        store.fold()
    is_over.set()
    thread.join()
    store.close()
    assert failures == []
    assert (read_last_copied_number(path), read_differences(path)) == (7 * sizes.views_per_part, [])


def test_part_that_is_not_folded_is_not_copied(path: Path) -> None:
    store, _ = open_stores(path)
    store.log_views(make_views(40, 300))
    store.close()
    database = DuckDatabase(path)
    for folded in (300, 319):
        PageVisitors(database, SMALL_PARTS).copy_part(folded)
    database.close()
    assert read_last_copied_number(path) == 300


def test_folds_continue_if_the_disk_is_full_and_the_next_process_copies_the_parts(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patches:
        patches.setattr(page_visitors, "load_sql", Mock(side_effect=StoreFull))
        store, model = open_stores(path)
        assert store.backlog() == 0, "nothing can be done before the next attempt"
        compare_pages(store, model)
        store.close()
    assert sum("could not copy visitors by page" in record.message for record in caplog.records) == 1
    store = DuckStore(path, copy_sizes=SMALL_PARTS)
    store.fold()
    compare_pages(store, model)
    store.close()
    assert (read_last_copied_number(path), read_differences(path)) == (300, [])


CHANGES: dict[str, Change] = {
    "a visitor is forgotten": lambda store: store.forget_visitor("docs", 5),
    "views are withdrawn": lambda store: store.withdraw_views("docs", [3, 40, 41, 250, 299]),
    "views are reclassified": lambda store: store.reclassify_views(
        "docs", [Reclassification("Reader", "Example", "human", "rule", "", "", "training", "new")], "2"
    ),
    "a project is deleted": lambda store: store.forget_project("other"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("views_per_part", [7, 1_000])
def test_copy_changes_with_the_raw_views(
    path: Path, name: str, views_per_part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_visitors, "VIEWS_PER_PART", views_per_part)
    store, model = open_stores(path, CopySizes(min_views=100, views_per_part=70))  # the last 20 views are not copied
    CHANGES[name](store)
    CHANGES[name](model)
    compare_pages(store, model)
    late_views = make_views(50, 300)
    log_and_fold(store, *late_views)
    model.log_views(late_views)
    model.fold()
    compare_pages(store, model)
    store.close()
    assert read_last_copied_number(path) > 300
    assert read_differences(path) == []


@pytest.mark.parametrize("project_ids", [None, ["docs"]])
def test_copy_is_deleted_with_the_raw_views(path: Path, project_ids: list[str] | None) -> None:
    store, model = open_stores(path)
    assert store.delete_raw_views(MONDAY + 20, project_ids) > 100
    recent = DayRange(MONDAY + 20, MONDAY + 40)
    for page in PATHS:
        assert store.load_page("docs", page, recent) == model.load_page("docs", page, recent)
    detail = store.load_page("docs", "/0", DayRange(MONDAY, MONDAY + 20))
    assert detail is not None
    assert (list(detail.agents), list(detail.referrers)) == ([], [])
    store.close()
    assert read_differences(path) == []
    with duckdb.connect(str(path), read_only=True) as connection:
        deleted = connection.execute(
            "select name, count(*) from page_visitors join projects on id = project where day < $day group by name",
            {"day": MONDAY + 20},
        ).fetchall()
    assert [name for name, _ in deleted] == ([] if project_ids is None else ["other"])


def test_forgotten_visitor_of_one_project_stays_in_another(path: Path) -> None:
    store, _ = open_stores(path)
    store.forget_visitor("docs", 9)
    store.close()
    with duckdb.connect(str(path), read_only=True) as connection:
        rows = connection.execute(
            "select distinct name from page_visitors join projects on id = project where visitor = 9"
        ).fetchall()
    assert rows == [("other",)]


def test_missing_pages_and_views_without_a_visitor_are_not_copied(path: Path) -> None:
    store = DuckStore(path, copy_sizes=CopySizes(min_views=1, views_per_part=1))
    log_and_fold(store, make_view("/a"), make_view("/b")._replace(status=404), make_view("/c", visitor=None))
    detail = store.load_page("docs", "/c")
    assert detail is not None
    assert [(row.visitors, row.views) for row in detail.agents] == [(0, 1)]
    store.close()
    with duckdb.connect(str(path), read_only=True) as connection:
        pages = connection.execute("select path from page_visitors join scopes on scopes.id = page").fetchall()
    assert pages == [("/a",)]


def test_limit_of_searched_views_of_the_site_leaves_out_copied_views(path: Path) -> None:
    store, _ = open_stores(path, CopySizes(min_views=200, views_per_part=200))
    for of_site, is_counted in ((100, True), (99, False)):
        detail = store.load_page("docs", "/1", limits=RawViewLimits(of_site=of_site))
        assert detail is not None
        assert [row.visitors is not None for row in detail.agents] == [is_counted] * len(detail.agents)
    detail = store.load_page("docs", "/1", limits=RawViewLimits(of_page=10))
    assert detail is not None
    assert {row.visitors for row in detail.agents} == {None}
    store.close()


def test_views_that_wait_to_be_copied_are_copied_part_by_part(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, model = open_stores(path, CopySizes(min_views=1_000, views_per_part=1_000))
    store.close()
    monkeypatch.setattr(store_module, "MAX_CATCH_UP_SECONDS_PER_FOLD", 0.0)
    store, folds = DuckStore(path, copy_sizes=SMALL_PARTS), 0
    while store.backlog():
        store.fold()
        folds += 1
        if folds % 4 == 0:
            compare_pages(store, model)
            store.close()  # the next process continues where this one ended
            assert (read_last_copied_number(path), read_differences(path)) == (20 * folds, [])
            store = DuckStore(path, copy_sizes=SMALL_PARTS)
    assert folds == 15
    compare_pages(store, model)
    store.close()
    assert (read_last_copied_number(path), read_differences(path)) == (300, [])


def find_row_groups(path: Path) -> Iterator[tuple[int, int]]:
    """Yields how many row groups of a table the report about a page reads, and how many the table has."""
    with duckdb.connect(str(path), read_only=True) as connection:
        [(page,)] = connection.execute("select id from scopes where sort = 0 and path = '/77'").fetchall()
        params = {
            "project": 1, "page": page, "first": 0, "end": LAST_DAY, "first_at": 0, "end_at": LAST_DAY * DAY,
            "after": read_last_copied_number(path), "folded": 10**9, "people": [1],
        }  # fmt: skip
        [(_, plan)] = connection.execute(f"explain analyze {load_sql('page_visitors')}", params).fetchall()
    for scanned, row_groups in re.findall(r"Row Groups Scanned: (\d+) / (\d+)", plan):
        yield int(scanned), int(row_groups)


def test_report_reads_few_row_groups_of_each_part(path: Path) -> None:
    """Fails if the rows of a part are not sorted by page, or if views that are copied are searched."""
    fill_store(path, parts=3)
    store = DuckStore(path, copy_sizes=LARGE_PARTS)
    while store.backlog():
        store.fold()
    store.close()
    assert read_differences(path) == []
    row_groups = list(find_row_groups(path))
    assert (3, 6) in row_groups
    assert all(scanned in (0, 3) for scanned, _ in row_groups)


def test_killed_process_leaves_whole_parts(path: Path) -> None:
    """Parts are large enough that DuckDB writes row groups into the file before the transaction is committed.

    Each process may run a little longer than the one before, so that one of them ends also on a slow machine.
    """
    fill_store(path, parts=6)
    seed = time.time_ns()
    chance, kills = random.Random(seed), 0
    while kills < MAX_KILLS:
        command = [sys.executable, "-m", "tests.analytics.stores.duckdb.page_copies", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.5) * PAUSE_GROWTH**kills)
            process.kill()
            if "done" in process.communicate()[0]:
                break
        kills += 1
        store = DuckStore(path)  # recovers
        store.close()
        assert read_last_copied_number(path) % LARGE_PARTS.views_per_part == 0, seed
        assert read_differences(path) == [], seed
    assert 0 < kills < MAX_KILLS, seed
    assert (read_last_copied_number(path), read_differences(path)) == (6 * LARGE_PARTS.views_per_part, [])
