"""Runs of visits: their files, merges, damage, and stores whose visits are still in the table."""

import shutil
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding import run_file
from copydesk.analytics.stores.duckdb.folding.run_file import RunFile, write_run
from copydesk.analytics.stores.duckdb.folding.run_merge import RunMerge
from copydesk.analytics.stores.duckdb.folding.run_merges import RunMerges
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    VisitRows,
    find_sorted,
    merge_sorted,
)
from copydesk.analytics.stores.duckdb.folding.visit_runs import RunSizes
from copydesk.analytics.stores.errors import StoreDamaged, StoreFull
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.duckdb.writer import SHORT_RUNS, make_batch

BATCHES = 30
ONE_TABLE = RunSizes(recent=1_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.duckdb"


def fill_store(path: Path, sizes: RunSizes, batches: range = range(BATCHES)) -> None:
    store = DuckStore(path, run_sizes=sizes)
    for number in batches:
        store.log_views(make_batch(number))
        store.fold()
    store._run_merges.wait()
    store.close()


def list_runs(path: Path) -> list[Path]:
    return sorted(path.with_name(f"{path.name}.visits").glob("*"))


def assert_exact(path: Path, sizes: RunSizes, batches: int = BATCHES) -> None:
    """Compares the numbers with a count over all views, as they are stored and after a rebuild from the visits."""
    model = ReferenceStore()
    for number in range(batches):
        model.log_views(make_batch(number))
    model.fold()
    wanted = model.count_visitors_by_page("docs", ALL_DAYS, 50, 0)
    store = DuckStore(path, run_sizes=sizes)
    for _ in range(2):
        found = store.count_visitors_by_page("docs", ALL_DAYS, 50, 0)
        assert (found.totals, list(found.rows)) == (wanted.totals, list(wanted.rows))
        store.rebuild_index()
    store.close()


def plan_merge(store: DuckStore) -> RunMerge:
    """Plans a merge, as a fold does at its end."""
    with store._index.change():
        merge = store._index.visits.plan_merge()
    assert merge is not None
    return merge


def make_visits(count: int, seed: int = 1) -> VisitRows:
    chance = np.random.default_rng(seed)
    return VisitRows(
        np.sort(chance.integers(0, max(count // 2, 1), count, dtype=np.int64)),
        chance.integers(1, 9, count, dtype=np.int32),
        chance.integers(1, 99, count, dtype=np.uint16),
        chance.integers(1, 31, count, dtype=np.uint8),
    )


def to_tuples(rows: VisitRows) -> list[tuple[int, int, int, int]]:
    return sorted(zip(*(column.tolist() for column in rows.columns()), strict=True))


@pytest.mark.parametrize("count", [1, 2, 1_000])
def test_run_finds_all_visits_of_a_key(tmp_path: Path, count: int) -> None:
    visits = make_visits(count)
    write_run(tmp_path / "a.run", count, [visits.take(slice(0, count // 2)), visits.take(slice(count // 2, count))])
    run = RunFile(tmp_path / "a.run", count)
    run.verify()
    wanted = np.unique(np.concatenate((visits.key[::3], [count + 5])))
    _, found = run.find(wanted)
    assert to_tuples(found) == to_tuples(visits.take(np.isin(visits.key, wanted)))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=70), st.lists(st.integers(-2, 45), max_size=20))
def test_reading_single_pages_finds_what_a_plain_search_finds(stored: list[int], wanted: list[int]) -> None:
    visits = make_visits(len(stored))
    visits = VisitRows(np.array(sorted(stored), np.int64), visits.scope, visits.day, visits.bits)
    wanted_keys = np.array(sorted(set(wanted)), np.int64)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(run_file, "FENCE_ROWS", 4)
        patch.setattr(run_file, "MAX_HELD_ROWS", 0)
        patch.setattr(run_file, "DENSE_ROWS_PER_KEY", 0)
        write_run(Path(folder, "a.run"), len(visits), [visits])
        positions, found = RunFile(Path(folder, "a.run"), len(visits)).find(wanted_keys)
    wanted_positions = find_sorted(visits.key, wanted_keys)
    assert positions.tolist() == wanted_positions.tolist()
    assert to_tuples(found) == to_tuples(visits.take(wanted_positions))


def make_hashed_visits(count: int, seed: int = 1) -> VisitRows:
    """Makes visits with keys that are spread over all numbers, as hashes are. Many occur twice."""
    visits = make_visits(count, seed)
    return VisitRows(visits.key * (2**63 // max(count // 2, 1)), visits.scope, visits.day, visits.bits)


@pytest.mark.parametrize("part_rows", [1, 7, 5_000])
@pytest.mark.parametrize("by_reading", [False, True])
def test_filter_keeps_every_key_of_the_run_and_few_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_reading: bool, part_rows: int
) -> None:
    if by_reading:
        monkeypatch.setattr(run_file, "MAX_HELD_ROWS", 0)
        monkeypatch.setattr(run_file, "DENSE_ROWS_PER_KEY", 0)
    visits = make_hashed_visits(5_000)
    parts = [visits.take(slice(first, first + part_rows)) for first in range(0, 5_000, part_rows)]
    write_run(tmp_path / "a.run", 5_000, parts)
    run = RunFile(tmp_path / "a.run", 5_000)
    run.verify()
    absent = np.sort(np.random.default_rng(2).integers(0, 2**63 - 1, 3_000))
    wanted = np.unique(np.concatenate((visits.key, absent, [-1, 0, 2**63 - 1])))
    positions, found = run.find(wanted)
    assert positions.tolist() == list(range(5_000))
    assert to_tuples(found) == to_tuples(visits)
    assert set(visits.key.tolist()) <= set(run.select_possible(wanted).tolist())
    assert len(run.select_possible(absent)) < 900
    assert len(run.find(absent[:0])[0]) == 0


def test_large_run_has_no_filter_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "MAX_FILTERED_ROWS", 999)
    visits = make_hashed_visits(1_000)
    write_run(tmp_path / "a.run", 1_000, [visits])
    run = RunFile(tmp_path / "a.run", 1_000)
    run.verify()
    absent = np.arange(1, 100)
    assert len(run.select_possible(absent)) == 99
    assert run.find(np.unique(visits.key))[0].tolist() == list(range(1_000))


@pytest.mark.parametrize(("mark", "fences"), [(b"visits01", 0), (b"visits02", 4)])
def test_run_of_an_earlier_version_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: bytes, fences: int
) -> None:
    """The first version had neither fences nor a filter, and the second had every 512th key as a fence."""
    monkeypatch.setattr(run_file, "MAX_HELD_ROWS", 0)
    monkeypatch.setattr(run_file, "DENSE_ROWS_PER_KEY", 0)
    visits = make_visits(2_000)
    contents = [column.tobytes() for column in visits.columns()]
    if fences:
        contents.append(visits.key[::512].tobytes())
    checksums = [zlib.crc32(content) for content in contents]
    footer = struct.pack(f"<8sQ{len(checksums)}I", mark, 2_000, *checksums)
    (tmp_path / "2.run").write_bytes(b"".join(contents) + footer)
    run = RunFile(tmp_path / "2.run", 2_000)
    run.verify()
    positions, _ = run.find(np.arange(0, 1_000, 7))
    assert positions.tolist() == find_sorted(visits.key, np.arange(0, 1_000, 7)).tolist()


@pytest.mark.parametrize("part_rows", [1, 3, 1_000])
def test_merge_yields_every_visit_once_and_no_key_in_two_parts(part_rows: int) -> None:
    sources = [make_visits(count, seed=count) for count in (0, 1, 40, 300)]
    parts = list(merge_sorted(sources, part_rows))
    merged = [row for part in parts for row in to_tuples(part)]
    assert sorted(merged) == sorted(row for source in sources for row in to_tuples(source))
    for before, after in pairwise(parts):
        assert before.key[-1] < after.key[0]


def test_visits_are_in_few_runs_after_merges(path: Path) -> None:
    fill_store(path, SHORT_RUNS)
    assert 1 <= len(list_runs(path)) <= 6
    assert_exact(path, SHORT_RUNS)


def test_long_fold_merges_runs_without_the_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunMerges, "start", lambda self: None)  # the thread cannot finish a merge during a fold
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    for number in range(BATCHES):
        store.log_views(make_batch(number))
        store.fold()
    store.close()
    assert 1 <= len(list_runs(path)) <= 21
    assert_exact(path, SHORT_RUNS)


def test_lookup_of_many_keys_finds_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "MAX_LOOKUPS_AT_ONCE", 7)
    visits = make_visits(1_000)
    write_run(tmp_path / "a.run", 1_000, [visits])
    positions, found = RunFile(tmp_path / "a.run", 1_000).find(np.unique(visits.key))
    assert positions.tolist() == list(range(1_000))
    assert to_tuples(found) == to_tuples(visits)


@pytest.mark.parametrize("place", ["key", "scope", "day", "bits", "fences", "filter", "footer"])
def test_changed_run_is_refused(tmp_path: Path, place: str) -> None:
    write_run(tmp_path / "a.run", 100, [make_visits(100)])
    content = bytearray((tmp_path / "a.run").read_bytes())
    places = {"key": 5, "scope": 805, "day": 1205, "bits": 1405, "fences": 1501, "filter": 1510, "footer": -30}
    content[places[place]] ^= 1
    (tmp_path / "a.run").write_bytes(content)
    with pytest.raises(StoreDamaged):
        RunFile(tmp_path / "a.run", 100).verify()


@pytest.mark.parametrize("field", [0, 1, 2, 3])
@pytest.mark.parametrize("value", [0, 1, 7])
def test_footer_with_another_number_is_refused(tmp_path: Path, field: int, value: int) -> None:
    """The footer has a mark, the rows, the rows between two fences, the bits of the filter, and checksums."""
    write_run(tmp_path / "a.run", 300, [make_visits(300)])
    content = bytearray((tmp_path / "a.run").read_bytes())
    start = len(content) - run_file.FOOTER.size
    fields = list(run_file.FOOTER.unpack_from(content, start))
    fields[field] = value if field else b"visits%02d" % value
    run_file.FOOTER.pack_into(content, start, *fields)
    (tmp_path / "a.run").write_bytes(content)
    with pytest.raises(StoreDamaged):
        RunFile(tmp_path / "a.run", 300)


@pytest.mark.parametrize("damage", ["missing", "short", "long", "empty"])
def test_store_with_a_damaged_run_is_refused_and_nothing_is_folded(path: Path, damage: str) -> None:
    fill_store(path, SHORT_RUNS)
    run = list_runs(path)[0]
    content = run.read_bytes()
    run.unlink()
    if damage != "missing":
        run.write_bytes({"short": content[:-1], "long": content + b"1", "empty": b""}[damage])
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    store.log_views(make_batch(BATCHES))
    with pytest.raises(StoreDamaged):
        store.fold()
    assert store.backlog() > 0
    run.write_bytes(content)
    store.fold()
    store.close()
    assert_exact(path, SHORT_RUNS, BATCHES + 1)


def test_files_that_are_not_listed_are_deleted(path: Path) -> None:
    fill_store(path, SHORT_RUNS)
    listed = list_runs(path)
    stray = [listed[0].with_name(name) for name in ("99999999.run", "other.tmp")]
    for one in stray:
        one.write_bytes(b"half a run")
    fill_store(path, SHORT_RUNS, range(BATCHES, BATCHES + 1))
    assert not any(one.exists() for one in stray)
    assert_exact(path, SHORT_RUNS, BATCHES + 1)


def test_visits_of_an_earlier_version_move_into_runs(path: Path) -> None:
    fill_store(path, ONE_TABLE)
    assert list_runs(path) == []
    assert_exact(path, SHORT_RUNS)
    assert list_runs(path)


class Interrupted(Exception):
    pass


def test_interrupted_move_into_runs_continues(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_store(path, ONE_TABLE)

    def interrupt(self: DuckDatabase, force: bool = False) -> Iterator[None]:
        raise Interrupted

    with monkeypatch.context() as patch:
        store = DuckStore(path, run_sizes=SHORT_RUNS)
        patch.setattr(DuckDatabase, "checkpoint", interrupt)
        with pytest.raises(Interrupted):
            store.rebuild_index()
        store.close()
    assert len(list_runs(path)) == 1
    assert_exact(path, SHORT_RUNS)


def test_merge_of_a_run_that_was_rewritten_is_dropped(path: Path) -> None:
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10))
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    visits = store._index.visits
    merge = plan_merge(store)
    assert merge.write(lambda: False)
    store.forget_visitor("docs", 1)
    before = store.count_visitors_by_page("docs")
    visits.finish_merge(merge)
    assert not merge.path.exists()
    store.rebuild_index()
    assert store.count_visitors_by_page("docs") == before
    store.close()


def test_stopped_merge_leaves_the_runs_as_they_were(path: Path) -> None:
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10))
    before = list_runs(path)
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    merge = plan_merge(store)
    assert not merge.write(lambda: True)
    store._index.visits.drop_merge(merge)
    store.close()
    assert list_runs(path) == before
    assert_exact(path, SHORT_RUNS)


def test_backup_taken_during_a_merge_is_complete(path: Path, tmp_path: Path) -> None:
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10))
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    visits = store._index.visits
    with visits.hold_runs() as runs:
        merge = plan_merge(store)
        assert merge.write(lambda: False)
        visits.finish_merge(merge)
        assert merge.runs.keys() <= runs.keys()
        assert merge.run_id in runs
    (tmp_path / "copy").mkdir()
    store.back_up(tmp_path / "copy" / "a.duckdb")
    store.close()
    shutil.rmtree(path.with_name(f"{path.name}.visits"))
    assert_exact(tmp_path / "copy" / "a.duckdb", SHORT_RUNS)


def test_failed_merge_is_reported_once_and_folds_continue(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: RunMerge, is_stopping: object) -> bool:
        raise StoreFull

    monkeypatch.setattr(RunMerge, "write", fail)
    fill_store(path, SHORT_RUNS)
    assert len(list_runs(path)) > 6
    assert caplog.text.count("could not merge files of visits") == 1
    assert_exact(path, SHORT_RUNS)


def test_merge_that_ends_after_the_visits_moved_into_the_table_is_dropped(path: Path) -> None:
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10))
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    merge = plan_merge(store)
    assert merge.write(lambda: False)
    store.move_visits_into_table()
    store._index.visits.finish_merge(merge)
    store.close()
    assert list_runs(path) == []
    assert_exact(path, ONE_TABLE)


def test_two_backups_at_once_are_complete(path: Path, tmp_path: Path) -> None:
    fill_store(path, SHORT_RUNS)
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    copies = [tmp_path / name / "a.duckdb" for name in ("first", "second")]
    for copy in copies:
        copy.parent.mkdir()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(store.back_up, copies))
    assert store._index.visits._held_runs == []
    store.close()
    for copy in copies:
        assert_exact(copy, SHORT_RUNS)


def test_number_of_a_run_is_never_used_again(path: Path) -> None:
    fill_store(path, SHORT_RUNS)
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    visits = store._index.visits
    with visits.hold_runs() as held:
        before = dict(held)
        store.forget_project("docs")
        with pytest.raises(Interrupted), store._index.change():
            raise Interrupted
        for number in range(BATCHES):
            store.log_views([view._replace(project="other") for view in make_batch(number)])
            store.fold()
        assert {run_id: held[run_id] for run_id in before} == before
    store.close()


def test_file_that_cannot_be_deleted_does_not_fail_a_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_store(path, SHORT_RUNS)
    store = DuckStore(path, run_sizes=SHORT_RUNS)

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        store.forget_visitor("docs", 1)
    assert store.count_visitors_by_page("docs").totals.total == 100
    store.close()
