"""A store that loads its filter of known events from files logs each event once, whatever happened to the files."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import LogResult
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.log import event_coverage, event_filter, filter_upkeep
from copydesk.analytics.stores.duckdb.log.event_coverage import read_coverage, read_events, read_later_events
from copydesk.analytics.stores.duckdb.log.filter_files import FilterFiles, get_filter_folder
from copydesk.analytics.stores.duckdb.log.view_log import ViewLog
from tests.analytics.stores.conformance.test_store import make_view

pytestmark = pytest.mark.deep

MIN_CAPACITY = 64
INSERT_EVENTS_OF_TWO_PROJECTS = """
    insert into events (project, id, seq)
    select case when range > 200_000 and range % 7 > 0 then $other else $docs end, hash(range) >> 1, range
    from range(1_000_000)
"""


def open_store(path: Path) -> DuckStore:
    """Opens a store that has files from 65 events on, and makes a checkpoint after each fold."""
    store = DuckStore(path, min_checkpoint_bytes=0, min_filter_capacity=MIN_CAPACITY)
    store.prepare_logging()
    return store


def hash_event(event: int) -> int:
    """Returns a number whose bits look random, as those of real events are."""
    return event * 0x9E3779B97F4A7C15 % (1 << 63)


def make_views(events: Iterable[int], project: str = "docs") -> list[PageView]:
    return [make_view(project=project, visitor=event, event=hash_event(event)) for event in events]


def make_store_of_two_projects(path: Path) -> dict[str, int]:
    """Makes a closed store with a million events of the projects `docs` and `other`. Returns their ids."""
    store = open_store(path)
    store.log_views([*make_views([1], "other"), *make_views([2])])
    store.close()
    with duckdb.connect(str(path)) as connection:
        projects = dict(connection.execute("select name, id from projects").fetchall())
        connection.execute(INSERT_EVENTS_OF_TWO_PROJECTS, projects)
    return projects


def log_in_batches(store: DuckStore, events: range, size: int = 10) -> None:
    for first in range(0, len(events), size):
        assert store.log_views(make_views(events[first : first + size])) == LogResult(min(size, len(events) - first))


def assert_all_known(store: DuckStore, events: Iterable[int], project: str = "docs") -> None:
    """Sends logged events again, alone, in small and in large batches."""
    views = make_views(events, project)
    for size in (len(views), 7):
        for first in range(0, len(views), size):
            batch = views[first : first + size]
            assert store.log_views(batch) == LogResult(0, tuple(range(len(batch))))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with 1,000 events."""
    store = open_store(tmp_path / "a.duckdb")
    log_in_batches(store, range(1, 1001))
    store.wait_for_filter()
    store.close()
    return tmp_path / "a.duckdb"


@pytest.fixture
def read_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events were read from the database for filters."""
    sizes: list[int] = []

    def count_all(connection: DuckConnection) -> Iterator[NDArray[np.int64]]:
        for events in read_events(connection):
            sizes.append(len(events))
            yield events

    def count_later(connection: DuckConnection, last_number: int) -> NDArray[np.int64]:
        events = read_later_events(connection, last_number)
        sizes.append(len(events))
        return events

    monkeypatch.setattr(event_filter, "read_events", count_all)
    monkeypatch.setattr(filter_upkeep, "read_later_events", count_later)
    return sizes


def list_files(path: Path) -> list[Path]:
    return sorted(get_filter_folder(path).iterdir())


def load_log(path: Path) -> tuple[DuckDatabase, ViewLog]:
    """Opens a log and waits until its filter is loaded."""
    database = DuckDatabase(path)
    log = ViewLog(database, min_filter_capacity=MIN_CAPACITY)
    log.prepare()
    log.wait_for_filter()
    return database, log


def test_start_reads_no_event_after_a_clean_end(path: Path, read_sizes: list[int]) -> None:
    for _ in range(2):
        database, log = load_log(path)
        assert sum(read_sizes) == 0
        assert log.write(make_views(range(1, 1001))).accepted == 0
        log.close()
        database.close()
    assert len(list_files(path)) == 2


def test_start_after_a_crash_reads_only_the_events_since_the_last_save(
    path: Path, tmp_path: Path, read_sizes: list[int]
) -> None:
    crashed = tmp_path / "crashed"
    database, log = load_log(path)
    for first in range(2001, 2101, 10):
        log.write(make_views(range(first, first + 10)))
        log.wait_for_filter()
    crashed.mkdir()
    for name in ("a.duckdb", "a.duckdb.wal"):
        shutil.copy(tmp_path / name, crashed)
    shutil.copytree(get_filter_folder(path), crashed / "a.duckdb.events")
    log.close()
    database.close()
    read_sizes.clear()
    database, log = load_log(crashed / "a.duckdb")
    assert 0 < sum(read_sizes) < MIN_CAPACITY + 10
    assert log.write(make_views([*range(1, 1001), *range(2001, 2101)])).accepted == 0
    log.close()
    database.close()


def test_few_events_have_no_files(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    store = open_store(path)
    log_in_batches(store, range(1, MIN_CAPACITY))
    store.close()
    assert not get_filter_folder(path).exists()


def test_store_that_became_small_deletes_its_files(path: Path) -> None:
    store = open_store(path)
    store.fold()
    store.forget_project("docs")
    store.log_views(make_views([1, 2]))
    store.close()
    store = open_store(path)
    assert_all_known(store, [1, 2])
    assert list_files(path) == []
    store.close()
    with duckdb.connect(str(path)) as connection:
        assert read_coverage(connection) is None


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip_bits(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[: len(content) // 2] = bytes(byte ^ 0xFF for byte in content[: len(content) // 2])
    file.write_bytes(content)


def clear_words(file: Path) -> None:
    """Makes a file that knows no event."""
    content = file.read_bytes()
    file.write_bytes(bytes(len(content) * 9 // 10) + content[len(content) * 9 // 10 :])


@pytest.mark.parametrize("damage", [Path.unlink, truncate, flip_bits, clear_words, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("number", [0, 1])
def test_damaged_file_is_replaced_and_no_event_is_logged_twice(
    path: Path, number: int, damage: Callable[[Path], object]
) -> None:
    file = list_files(path)[number]
    damage(file)
    for _ in range(2):
        store = open_store(path)
        assert_all_known(store, range(1, 1001))
        store.close()
    assert file not in list_files(path)
    database, log = load_log(path)
    assert log.write(make_views(range(1, 1101))) == LogResult(100, tuple(range(1000)))
    log.close()
    database.close()


def test_files_that_were_swapped_are_replaced(path: Path) -> None:
    first, second = list_files(path)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    store = open_store(path)
    assert_all_known(store, range(1, 1001))
    store.close()
    assert not {first, second} & set(list_files(path))


def test_folder_that_cannot_be_written_stops_neither_logging_nor_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.duckdb"
    get_filter_folder(path).write_text("a file in place of the folder")
    for first in (1, 501):
        store = open_store(path)
        log_in_batches(store, range(first, first + 500))
        assert_all_known(store, range(1, first + 500))
        store.close()
    assert "could not save the filter of known events" in caplog.text
    get_filter_folder(path).unlink()
    store = open_store(path)
    assert_all_known(store, range(1, 1001))
    store.close()
    assert len(list_files(path)) == 2


@pytest.mark.parametrize("has_room_until", range(8))
def test_full_disk_during_a_save_stops_neither_logging_nor_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch, has_room_until: int
) -> None:
    """The disk has room for a few files only; a file that has no room is written in part."""
    written = 0
    write = FilterFiles.write

    def write_or_fail(files: FilterFiles, copy: object) -> int:
        nonlocal written
        written += 1
        if written > has_room_until:
            (get_filter_folder(path) / f"{written}.filter").write_bytes(b"part")
            raise OSError(28, "No space left on device")
        return write(files, copy)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(FilterFiles, "write", write_or_fail)
        store = open_store(path)
        log_in_batches(store, range(2001, 3001))
        assert_all_known(store, [*range(1, 1001), *range(2001, 3001)])
        store.close()
    assert written > has_room_until
    store = open_store(path)
    assert_all_known(store, [*range(1, 1001), *range(2001, 3001)])
    store.close()
    assert len(list_files(path)) == 2


def test_crash_at_any_step_of_a_save_leaves_a_store_that_knows_all_events(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Copies all files before and after each step; the copies are what a killed process leaves.

    A save runs beside the logging, so a copy may hold one batch more than was confirmed.
    """
    crashes: list[tuple[Path, int]] = []
    logged = 1000

    def copy_all() -> None:
        copy = tmp_path / f"crash{len(crashes)}"
        copy.mkdir()
        for name in ("a.duckdb", "a.duckdb.wal"):
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, copy)
        shutil.copytree(get_filter_folder(path), copy / "a.duckdb.events")
        crashes.append((copy / "a.duckdb", logged))

    def wrap(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            copy_all()
            result = step(*args)
            copy_all()
            return result

        return run

    with monkeypatch.context() as patch:
        for name in ("write", "delete_others"):
            patch.setattr(FilterFiles, name, wrap(getattr(FilterFiles, name)))
        database, log = load_log(path)
        for first in range(1001, 1261, 20):
            log.write(make_views(range(first, first + 20)))
            logged = first + 19
            log.wait_for_filter()
        log.close()
        database.close()
    assert len(crashes) > 10
    for copy, last in crashes:
        store = open_store(copy)
        assert_all_known(store, range(1, last + 1))
        store.log_views(make_views(range(1, 1301)))
        store.close()
        with duckdb.connect(str(copy)) as connection:
            counts = connection.execute("select count(*), count(distinct id) from events").fetchone()
        assert counts == (1300, 1300)


def test_deletions_and_a_vacuum_leave_no_event_unknown(tmp_path: Path) -> None:
    """DuckDB gives rows other numbers when it removes deleted ones, here several groups of rows."""
    path = tmp_path / "a.duckdb"
    params = {"docs": make_store_of_two_projects(path)["docs"]}
    with duckdb.connect(str(path)) as connection:
        [(event_count,)] = connection.execute("select count(*) from events where project = $docs", params).fetchall()
    store = open_store(path)
    store.wait_for_filter()
    store.fold()
    store.forget_project("other")
    store.log_views(make_views(range(10, 100)))
    store.close()
    for first in (1000, 2000):
        store = open_store(path)
        assert store.log_views(make_views(range(first, first + 100))).accepted == 100
        store.fold()
        store.close()
    with duckdb.connect(str(path)) as connection:
        [(last_row,)] = connection.execute("select max(rowid) from events").fetchall()
        stored = [event for (event,) in connection.execute("select id from events order by rowid").fetchall()]
    assert last_row < 900_000, "there was no vacuum"
    database, log = load_log(path)
    views = [make_view(event=event) for event in stored[::100] + stored[-1000:]]
    assert log.write(views).accepted == 0
    log.close()
    database.close()
    assert len(stored) == event_count + 290


@pytest.mark.parametrize(
    "delete",
    [
        lambda store: store.withdraw_views("docs", [hash_event(event) for event in range(1, 31)]),
        lambda store: store.forget_project("other"),
    ],
    ids=["withdrawal", "deleted project"],
)
def test_event_logged_after_a_deletion_is_known_after_a_checkpoint_and_a_crash(
    path: Path, tmp_path: Path, delete: Callable[[DuckStore], object]
) -> None:
    """The checkpoint gives the new rows smaller numbers, which the saved filter must not take for those it has."""
    store = open_store(path)
    store.wait_for_filter()
    store.log_views(make_views(range(1, 31), "other"))
    store.close()
    crashed = tmp_path / "crashed"
    store = open_store(path)
    store.wait_for_filter()
    store.fold()
    delete(store)
    log_in_batches(store, range(5001, 5051))
    store.fold()
    shutil.copytree(tmp_path, crashed, ignore=shutil.ignore_patterns("crashed"))
    store.close()
    store = open_store(crashed / "a.duckdb")
    store.wait_for_filter()
    assert_all_known(store, range(5001, 5051))
    assert_all_known(store, range(31, 1001))
    store.close()


def test_withdrawal_during_a_save_makes_it_invalid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is logged after a withdrawal would otherwise be missing from what the next start reads."""
    store = open_store(path)
    store.fold()
    write = FilterFiles.write

    def withdraw_and_write(files: FilterFiles, copy: object) -> int:
        store.withdraw_views("docs", [hash_event(event) for event in range(1, 11)])
        return write(files, copy)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(FilterFiles, "write", withdraw_and_write)
        log_in_batches(store, range(2001, 2001 + 2 * MIN_CAPACITY))
        store.wait_for_filter()
    with store._database.read() as connection:
        assert read_coverage(connection) is None
    store.log_views(make_views(range(3001, 3011)))
    store.close()
    store = open_store(path)
    assert_all_known(store, [*range(11, 1001), *range(2001, 2001 + 2 * MIN_CAPACITY), *range(3001, 3011)])
    assert store.log_views(make_views(range(1, 11))).accepted == 10
    store.close()


def test_backup_has_no_marks_of_files(path: Path, tmp_path: Path) -> None:
    store = open_store(path)
    store.back_up(tmp_path / "backup.duckdb")
    store.close()
    for file, has_marks in ((tmp_path / "backup.duckdb", False), (path, True)):
        with duckdb.connect(str(file), read_only=True) as connection:
            assert (read_coverage(connection) is not None) == has_marks


def test_rows_that_are_renumbered_while_all_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint may remove deleted rows between two parts, although the transaction of the reader is open."""
    path = tmp_path / "a.duckdb"
    projects = make_store_of_two_projects(path)
    attempts = []

    def skip_rows_at_first(connection: DuckConnection) -> Iterator[NDArray[np.int64]]:
        attempts.append(1)
        with monkeypatch.context() as patch:
            if len(attempts) < filter_upkeep.BUILD_ATTEMPTS:
                patch.setattr(event_coverage, "SELECT_ROWS", f"{event_coverage.SELECT_ROWS} and rowid % 10 > 0")
            yield from read_events(connection)

    with monkeypatch.context() as patch:
        patch.setattr(event_filter, "read_events", skip_rows_at_first)
        database, log = load_log(path)
    assert len(attempts) == filter_upkeep.BUILD_ATTEMPTS
    with database.read() as connection:
        rows = connection.execute(
            "select id from events where project = $docs and id % 100 = 0", {"docs": projects["docs"]}
        )
        stored = [event for (event,) in rows.fetchall()]
    assert log.write([make_view(event=event) for event in set(stored)]).accepted == 0
    log.close()
    database.close()


def test_checkpoints_with_a_vacuum_during_a_load_leave_no_event_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    make_store_of_two_projects(path)
    store = open_store(path)
    store.wait_for_filter()
    store.fold()
    store.forget_project("other")
    log_in_batches(store, range(10, 60))
    store.wait_for_filter()
    store.close()
    for number in range(8):
        copy = tmp_path / f"copy{number}" / "a.duckdb"
        shutil.copytree(get_filter_folder(path), get_filter_folder(copy))
        shutil.copy(path, copy)
        database = DuckDatabase(copy)
        log = ViewLog(database, min_filter_capacity=MIN_CAPACITY)
        checkpoint = threading.Thread(target=database.checkpoint, kwargs={"force": True})
        checkpoint.start()
        time.sleep(number / 200)
        log.prepare()
        log.wait_for_filter()
        checkpoint.join()
        assert log.write(make_views(range(10, 60))).accepted == 0
        log.close()
        database.close()


def test_many_writers_load_the_filter_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second load would forget the events that were logged during the first one."""
    loads = []
    build = event_filter.build_filter

    def build_slowly(*args: Any) -> Any:
        loads.append(1)
        time.sleep(0.2)
        return build(*args)

    shutil.rmtree(get_filter_folder(path))
    monkeypatch.setattr(filter_upkeep, "build_filter", build_slowly)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    database = DuckDatabase(path)
    log = ViewLog(database, min_filter_capacity=MIN_CAPACITY)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda first: log.write(make_views(range(first, first + 5))), range(2000, 2200, 5)))
        log.wait_for_filter()
    finally:
        sys.setswitchinterval(interval)
    assert len(loads) == 1
    assert log.write(make_views(range(2000, 2200))).accepted == 0
    log.close()
    database.close()
