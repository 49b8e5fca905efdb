"""The memory of a fold is bounded: visits are added in ranges of keys, files are read in batches, and DuckDB's cache is
released."""

import tracemalloc
from collections.abc import Iterator
from functools import partialmethod
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import MAX_RELEASED_CACHE, DuckDatabase
from copydesk.analytics.stores.duckdb.folding import compaction, visitor_index
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes, PageVisitors
from copydesk.analytics.stores.duckdb.folding.runs import run_file
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import RunSizes
from copydesk.analytics.stores.duckdb.folding.visit_rows import VisitRows, find_sorted
from copydesk.analytics.stores.duckdb.folding.visitor_index import MAX_VIEWS_PER_TRANSACTION, VisitorIndex
from copydesk.analytics.stores.duckdb.log.view_log import ViewLog
from copydesk.core.clock import DAY
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.duckdb.run_files import make_hashed_visits, write_visits
from tests.analytics.stores.duckdb.writer import make_batch

pytestmark = pytest.mark.deep

MAX_FOLD_BYTES = 55_000_000
VISITORS = 1_000


def make_returning_views(first: int, count: int) -> Iterator[PageView]:
    """Makes views of 50 pages by people who come back day after day, so that each has many known visits."""
    [example, *_] = make_batch(0)
    for number in range(first, first + count):
        at = (20_000 + number // VISITORS) * DAY
        visitor = number % VISITORS * 6_364_136_223_846_793_005 % 2**63  # spread as hashes are
        yield example._replace(path=f"/docs/{number % 49}", at=at, visitor=visitor, event=None)


def read_index(database: DuckDatabase) -> list[tuple[int, ...]]:
    with database.read() as connection:
        return sorted(connection.execute("from firsts").fetchall())


def read_memory_limit(database: DuckDatabase) -> str:
    with database.read() as connection:
        [(limit,)] = connection.execute("select current_setting('memory_limit')").fetchall()
    return str(limit)


def read_used_memory(database: DuckDatabase) -> int:
    with database.read() as connection:
        [(used,)] = connection.execute("select sum(memory_usage_bytes)::bigint from duckdb_memory()").fetchall()
    return int(used)


def fold_batches(path: Path) -> tuple[list[tuple[int, ...]], tuple[object, ...]]:
    """Folds 600 views in transactions of 100. Returns the rows of the index and the report."""
    database = DuckDatabase(path)
    log = ViewLog(database)
    for number in range(30):
        log.write(make_batch(number))
    assert sum(VisitorIndex(database).fold_views(log.last_number, max_views=100)) == 600
    rows = read_index(database)
    log.close()
    database.close()
    store = DuckStore(path)
    report = store.count_visitors_by_page("docs", ALL_DAYS, 50, 0)
    store.close()
    return rows, (report.totals, list(report.rows))


@pytest.mark.parametrize("visits_per_range", [1, 7, 150])
def test_visits_added_in_ranges_of_keys_give_the_same_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visits_per_range: int
) -> None:
    rows, report = fold_batches(tmp_path / "whole.duckdb")
    monkeypatch.setattr(visitor_index, "MAX_VISITS_SEARCHED_AT_ONCE", 0)
    monkeypatch.setattr(visitor_index, "NEW_VISITS_PER_RANGE", visits_per_range)
    assert fold_batches(tmp_path / "ranges.duckdb") == (rows, report)
    model = ReferenceStore()
    for number in range(30):
        model.log_views(make_batch(number))
    model.fold()
    wanted = model.count_visitors_by_page("docs", ALL_DAYS, 50, 0)
    assert report == (wanted.totals, list(wanted.rows))


def test_fold_onto_many_known_visits_needs_little_memory(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb")
    for first in (0, MAX_VIEWS_PER_TRANSACTION):
        store.log_views(list(make_returning_views(first, MAX_VIEWS_PER_TRANSACTION)))
        tracemalloc.start()
        try:
            assert store.fold() == MAX_VIEWS_PER_TRANSACTION
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    store.close()
    assert peak < MAX_FOLD_BYTES


@pytest.mark.parametrize("mapped_rows", [1, 50, 10_000])
def test_search_in_batches_of_a_mapped_file_finds_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped_rows: int
) -> None:
    monkeypatch.setattr(run_file, "MAX_HELD_ROWS", 0)
    monkeypatch.setattr(run_file, "MAX_MAPPED_ROWS", mapped_rows)
    chance = np.random.default_rng(1)
    key = np.sort(np.repeat(chance.integers(0, 2**63 - 1, 500, dtype=np.int64), 2))
    visits = VisitRows(key, np.arange(1_000, dtype=np.int32), np.ones(1_000, np.uint16), np.ones(1_000, np.uint8))
    run = write_visits(tmp_path / "a.run", visits)
    for wanted in (np.unique(key), np.unique(key)[::9], np.unique(key)[200:210], key[:0]):
        positions, found = run.find(wanted)
        assert positions.tolist() == find_sorted(key, wanted).tolist()
        assert found.scope.tolist() == positions.tolist()


def test_cache_is_released_unless_a_connection_is_in_use_and_the_limit_is_as_before(tmp_path: Path) -> None:
    database = DuckDatabase(tmp_path / "a.duckdb", memory_limit=128 * 2**20)
    with database.write() as connection:
        connection.execute("create table numbers as select range as number, hash(range) as other from range(6_000_000)")
    database.checkpoint(force=True)
    with database.read() as connection:
        connection.execute("select sum(hash(number, other)) from numbers").fetchall()
    before = read_used_memory(database)
    with database.read():  # the statement of a report, which would fail if it needed more than the lower limit
        database.release_memory()
        assert read_used_memory(database) == before
    database.release_memory()
    assert read_used_memory(database) <= MAX_RELEASED_CACHE < before
    assert read_memory_limit(database) == "128.0 MiB"
    database.close()


def test_cache_of_a_store_with_a_low_limit_can_be_released(tmp_path: Path) -> None:
    database = DuckDatabase(tmp_path / "a.duckdb", memory_limit=32 * 2**20)
    database.release_memory()
    assert read_memory_limit(database) == "32.0 MiB"
    database.close()


@pytest.mark.parametrize(("max_views", "releases"), [(1_000, 0), (20, 29)])
def test_cache_is_released_after_each_transaction_of_a_long_fold_but_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_views: int, releases: int
) -> None:
    released: list[DuckDatabase] = []
    monkeypatch.setattr(DuckDatabase, "release_memory", lambda database: released.append(database))
    monkeypatch.setattr(VisitorIndex, "fold_views", partialmethod(VisitorIndex.fold_views, max_views=max_views))
    store = DuckStore(tmp_path / "a.duckdb")
    for number in range(30):
        store.log_views(make_batch(number))
    assert store.fold() == 600
    store.close()
    assert len(released) == releases


def test_search_for_many_keys_does_not_keep_the_filter_of_a_large_file_in_memory(tmp_path: Path) -> None:
    visits = make_hashed_visits(2_000_000)
    run = write_visits(tmp_path / "a.run", visits)
    run.load_index()
    found, in_memory = [], []
    for wanted in (visits.key[::4_000], visits.key):  # few keys, and all of them
        positions, _ = run.find(np.unique(wanted))
        found.append(len(positions))
        in_memory.append(count_mapped_bytes(tmp_path / "a.run"))
    assert found[1] == len(visits)
    assert in_memory[0] > 500_000, "the filter takes a megabyte, and small folds use it again and again"
    assert in_memory[1] == 0


def test_index_of_a_file_can_be_released_and_is_loaded_again(tmp_path: Path) -> None:
    visits = make_hashed_visits(2_000_000)
    run = write_visits(tmp_path / "a.run", visits)
    run.release_index()
    tracemalloc.start()
    try:
        run.load_index()
        loaded, _ = tracemalloc.get_traced_memory()
        run.release_index()
        released, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    pages = len(visits) // 128
    assert 12 * pages < loaded < 14 * pages, "a fence of 8 bytes and a count of 4 for each page"
    assert released < pages
    wanted = np.unique(visits.key)[::9]
    positions, _ = run.find(wanted)
    assert positions.tolist() == find_sorted(visits.key, wanted).tolist()


def test_index_can_be_released_in_the_middle_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "KEYS_PER_BATCH", 100)
    visits = make_hashed_visits(20_000)
    run = write_visits(tmp_path / "a.run", visits)
    released: list[int] = []

    def release_and_keep(rows: VisitRows) -> VisitRows:
        run.release_index()
        released.append(len(rows))
        return rows

    wanted = np.unique(visits.key)[::3]
    found = run.find_selected(wanted, release_and_keep)
    assert len(released) > 10
    assert found.key.tolist() == visits.key[find_sorted(visits.key, wanted)].tolist()


def test_index_of_files_is_released_before_tables_are_compacted_and_visitors_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(visitor_index, "ROWS_BETWEEN_CHECKS", 1)
    monkeypatch.setattr(compaction, "MIN_NEW_ROWS", 0)
    record_calls(monkeypatch, RunFile, "release_index", done)
    record_calls(monkeypatch, PageVisitors, "copy_part", done)
    record_calls(monkeypatch, compaction, "load_sql", done)
    store = DuckStore(tmp_path / "a.duckdb", run_sizes=RunSizes(recent=10), copy_sizes=CopySizes(1, 5))
    for number in range(3):
        store.log_views(make_batch(number))
        store.fold()
    before = [first for first, second in pairwise(done) if first != second and second != "release_index"]
    store.rebuild_index()
    store.close()
    assert {"copy_part", "load_sql"} < set(done)
    assert set(before) == {"release_index"}
    assert done[-2:] == ["release_index", "load_sql"]


def record_calls(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, done: list[str]) -> None:
    """Appends the name of a function to a list each time it is called."""
    function = getattr(owner, name)

    def call(*arguments: object) -> object:
        done.append(name)
        return function(*arguments)

    monkeypatch.setattr(owner, name, call)


def count_mapped_bytes(path: Path) -> int:
    """Returns how much memory of a mapped file this process holds."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    [first] = [number for number, line in enumerate(lines) if line.endswith(str(path))]
    [resident] = [line for line in lines[first : first + 10] if line.startswith("Rss:")]
    return int(resident.split()[1]) * 1024
