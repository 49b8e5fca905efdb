"""Runs of visits: their files, merges, damage, and restored backups, whose visits are in the table."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from copydesk.analytics.stores.base import ALL_DAYS, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding.runs.run_merge import RunMerge
from copydesk.analytics.stores.duckdb.folding.runs.run_merges import RunMerges
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import RunSizes
from copydesk.analytics.stores.duckdb.folding.visit_rows import merge_sorted
from copydesk.analytics.stores.errors import StoreDamaged, StoreFull
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.duckdb.run_files import (
    make_visits,
    to_tuples,
    write_visits,
)
from tests.analytics.stores.duckdb.writer import SHORT_RUNS, make_batch

pytestmark = pytest.mark.deep

BATCHES = 30
ONE_TABLE = RunSizes(recent=1_000_000)
UNMERGED_RUNS = RunSizes(recent=50, merged_runs=99, part=30, short_sizes=0)


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


def count_rows_of_runs(path: Path) -> list[int]:
    with duckdb.connect(path) as connection:
        return [rows for (rows,) in connection.execute("select rows from visit_runs order by id").fetchall()]


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


@pytest.mark.parametrize("part_rows", [1, 3, 1_000])
@pytest.mark.parametrize("in_files", [False, True])
def test_merge_yields_every_visit_once_and_no_key_in_two_parts(tmp_path: Path, part_rows: int, in_files: bool) -> None:
    visits = [make_visits(count, seed=count) for count in (1, 40, 300)]
    files = [write_visits(tmp_path / f"{len(each)}.run", each) for each in visits]
    parts = list(merge_sorted([make_visits(0), *(files if in_files else visits)], part_rows))
    merged = [row for part in parts for row in to_tuples(part)]
    assert sorted(merged) == sorted(row for each in visits for row in to_tuples(each))
    for before, after in pairwise(parts):
        assert before.key[-1] < after.key[0]
    for part in parts:
        rows = list(zip(part.key.tolist(), part.scope.tolist(), part.day.tolist(), strict=True))
        assert rows == sorted(rows)


def test_visits_are_in_few_runs_after_merges(path: Path) -> None:
    fill_store(path, SHORT_RUNS)
    assert 1 <= len(list_runs(path)) <= 6
    assert_exact(path, SHORT_RUNS)


def test_section_reports_are_complete_while_many_runs_are_merged(path: Path) -> None:
    fill_store(path, UNMERGED_RUNS)
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    wanted = store.list_sections("docs", query=SectionQuery("/1", 2))
    store.log_views(make_batch(0))  # known events, so nothing is added
    store.fold()
    while (thread := store._run_merges._thread) is not None and thread.is_alive():
        assert store.list_sections("docs", query=SectionQuery("/1", 2)) == wanted
    assert wanted.rows
    store.close()


def test_short_runs_are_merged_early_after_folds_of_few_views(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds one batch at a time, first as if it had many views, then as one of few views."""
    sizes = RunSizes(recent=50, merged_runs=4, part=30, short_sizes=2)
    monkeypatch.setattr("copydesk.analytics.stores.duckdb.store.MAX_VIEWS_OF_SMALL_FOLD", 0)
    fill_store(path, sizes)
    numbers_of_rows = count_rows_of_runs(path)
    assert sum(rows <= 200 for rows in numbers_of_rows) > 1 or sum(200 < rows <= 800 for rows in numbers_of_rows) > 1
    long_runs = [rows for rows in numbers_of_rows if rows > 800]
    monkeypatch.undo()
    fill_store(path, sizes, range(BATCHES, BATCHES + 1))
    numbers_of_rows = count_rows_of_runs(path)
    assert sum(rows <= 200 for rows in numbers_of_rows) <= 1
    assert sum(200 < rows <= 800 for rows in numbers_of_rows) <= 1
    assert [rows for rows in numbers_of_rows if rows in long_runs] == long_runs, "long runs stay as they are"
    assert_exact(path, sizes, BATCHES + 1)


def test_long_fold_merges_runs_without_the_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        RunMerges, "start", lambda self, is_early: None
    )  # the thread cannot finish a merge during a fold
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    for number in range(BATCHES):
        store.log_views(make_batch(number))
        store.fold()
    store.close()
    assert 1 <= len(list_runs(path)) <= 21
    assert_exact(path, SHORT_RUNS)


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


def test_visits_of_a_restored_backup_move_into_runs(path: Path, tmp_path: Path) -> None:
    fill_store(path, SHORT_RUNS)
    store, copy = DuckStore(path, run_sizes=SHORT_RUNS), tmp_path / "copy" / "a.duckdb"
    copy.parent.mkdir()
    store.back_up(copy)
    store.close()
    assert list_runs(copy) == []
    assert_exact(copy, SHORT_RUNS)
    assert list_runs(copy)


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
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10, short_sizes=0))
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
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10, short_sizes=0))
    before = list_runs(path)
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    merge = plan_merge(store)
    assert not merge.write(lambda: True)
    store._index.visits.drop_merge(merge)
    store.close()
    assert list_runs(path) == before
    assert_exact(path, SHORT_RUNS)


def test_backup_taken_during_a_merge_is_complete(path: Path, tmp_path: Path) -> None:
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10, short_sizes=0))
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
    fill_store(path, RunSizes(recent=20, merged_runs=99, part=10, short_sizes=0))
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    merge = plan_merge(store)
    assert merge.write(lambda: False)
    store.move_visits_into_table()
    store._index.visits.finish_merge(merge)
    store.close()
    assert list_runs(path) == []
    assert_exact(path, ONE_TABLE)


def test_visits_that_were_added_after_a_move_into_the_table_can_be_moved_too(path: Path) -> None:
    store = DuckStore(path, run_sizes=SHORT_RUNS)
    for number in range(BATCHES):
        store.log_views(make_batch(number))
        store.fold()
        store.move_visits_into_table()
    store.close()
    assert list_runs(path) == []
    assert_exact(path, ONE_TABLE)


def test_closed_store_has_no_open_files(path: Path) -> None:
    store = DuckStore(path, run_sizes=UNMERGED_RUNS)
    for number in range(BATCHES):
        store.log_views(make_batch(number))
        store.fold()
    assert len(list_open_files(path.parent)) >= BATCHES
    store.close()
    assert list_open_files(path.parent) == []


def list_open_files(folder: Path) -> list[str]:
    targets = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [target for target in targets if target.startswith(str(folder))]


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
