"""The visits of a store: recent ones in a table, the others in runs, which are files of visits sorted by key.

The table `visit_runs` lists the runs, so that one commit of DuckDB decides about both: a file that it does not list is
deleted before the next change. A change writes new files and never touches a listed one.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.row_inserts import Columns, RowInserts
from copydesk.analytics.stores.duckdb.folding.runs.open_run import get_run_folder, get_run_path, open_run
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_merge import RunMerge, merge_runs
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import VisitBounds, find_bounds
from copydesk.analytics.stores.duckdb.folding.runs.run_writer import write_run
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    NO_VISITS,
    Keys,
    SelectVisits,
    SortedVisits,
    VisitRows,
    insert_sorted,
    join_visits,
    keep_all,
)
from copydesk.core.runtime.durable_files import sync_to_disk

log = logging.getLogger(__name__)

MERGE_READS_PER_PART = 10
"""A merge reads a part in so many pieces, because it may run during a fold, which needs memory too."""
RECENT_VISITS_PER_NEWEST = 12
"""The newest visits are at most one in so many of the recent ones."""


@dataclass(frozen=True)
class RunSizes:
    """How many visits are where. Small numbers make a test reach what else needs millions of visits."""

    recent: int = 100_000
    """When the table of recent visits has more, they become a run."""
    merged_runs: int = 4
    """This many runs of similar size are merged into one, so that a search reads few runs."""
    part: int = 250_000
    """How many visits of each of four runs are in memory while all are read; of more runs, fewer each."""
    moved: int = 2_000_000
    """How many visits of a long table become one run, as in a restored backup, which has all visits there."""
    short_sizes: int = 4
    """Runs of so many sizes are short: up to 25.6 million visits, which are merged in seconds."""


DEFAULT_RUN_SIZES = RunSizes()


class VisitRuns:
    """The visits. One caller at a time, who holds the store's fold lock."""

    def __init__(self, database: DuckDatabase, inserts: RowInserts, sizes: RunSizes = DEFAULT_RUN_SIZES) -> None:
        self._database = database
        self._inserts = inserts
        self._sizes = sizes
        self._folder = get_run_folder(database.path)
        self._recent: tuple[VisitRows, VisitRows] | None = None
        """The rows of the table `visits`: most of them and the newest, so that few are moved when some are added. Both
        are sorted by key. None before they are loaded, and after a failure."""
        self._runs: dict[int, RunFile] = {}
        self._last_id = 0
        self._obsolete: list[RunFile] = []
        self._held_runs: list[dict[int, RunFile]] = []
        """For each copy that is being made: all runs since it began. A deleted file can be read while it is open."""
        self._merges: list[RunMerge] = []
        """The merges that are being written: their files are not listed yet."""

    @contextmanager
    def change(self) -> Iterator[None]:
        """Allows changes of the visits, in a transaction that is committed before the block ends."""
        if self._recent is None:
            self._load()
        try:
            yield
        except BaseException:
            self._recent, self._obsolete = None, []
            raise
        for run in self._obsolete:
            with suppress(OSError):  # the next load deletes files that are not listed
                run.path.unlink()
        self._obsolete = []

    def close(self) -> None:
        """Closes all files, as soon as nobody reads them. The next change would open them again."""
        self._recent, self._runs, self._obsolete = None, {}, []

    @contextmanager
    def hold_runs(self) -> Iterator[dict[int, RunFile]]:
        """Yields all runs, including those that are created and deleted until the block ends."""
        if self._recent is None:
            self._load()
        held = dict(self._runs)
        self._held_runs.append(held)
        try:
            yield held
        finally:
            self._held_runs = [runs for runs in self._held_runs if runs is not held]

    def list_sources(self) -> list[SortedVisits]:
        """Returns all visits as they are now. They can be read as long as the caller has them, whatever changes."""
        if self._recent is None:
            self._load()
        return self._list_sources()

    def move_into_table(self, connection: DuckConnection) -> None:
        """Moves all visits into the table, in the order of their keys, for a reader that knows tables only."""
        connection.execute("create temp table if not exists sorted_visits as from visits limit 0")
        for rows in self.read_all():
            self._inserts.insert(connection, "sorted_visits", name_columns(rows))
        connection.execute("delete from visits")
        connection.execute("insert into visits from sorted_visits")
        connection.execute("delete from sorted_visits")  # not dropped, because the prepared insert would lose it
        for run_id in list(self._runs):
            self._delete_run(connection, run_id)
        self._recent = None

    def has_long_table(self, connection: DuckConnection) -> bool:
        """Returns whether the next change first moves rows of the table into runs, which may take long."""
        [(rows,)] = connection.execute("select count(*) from visits").fetchall()
        return int(rows) > self._sizes.recent

    def load(self) -> None:
        """Loads what every search needs: recent visits, and the fences and filters of runs."""
        if self._recent is None:
            self._load()
        for run in self._runs.values():
            run.load_index()

    def release_index(self) -> None:
        """Frees the fences and the numbers of keys of all runs, because other work needs memory."""
        for run in self._runs.values():
            run.release_index()

    def find(self, keys: Keys, select: SelectVisits = keep_all) -> VisitRows:
        """Returns those of the visits with these keys that `select` selects. The keys must be sorted and distinct."""
        found = [source.find_selected(keys, select) for source in self._list_sources()]
        return join_visits([part for part in found if len(part)] or [NO_VISITS])

    def add(self, connection: DuckConnection, rows: VisitRows) -> None:
        """Stores visits, which must be sorted by key."""
        recent, newest = self._get_recent()
        newest = insert_sorted(newest, rows)
        is_full = len(recent) + len(newest) > self._sizes.recent
        if is_full or len(newest) > self._sizes.recent // RECENT_VISITS_PER_NEWEST:
            recent, newest = insert_sorted(recent, newest), NO_VISITS
        if not is_full:
            self._inserts.insert(connection, "visits", name_columns(rows))
            self._recent = recent, newest
            return
        if len(recent) > len(rows):
            connection.execute("delete from visits")
        self._recent = NO_VISITS, NO_VISITS
        self._add_run(connection, len(recent), find_bounds(recent), lambda: [recent])

    def remove(self, connection: DuckConnection, select: Callable[[VisitRows], NDArray[np.bool_]]) -> None:
        """Deletes the visits that `select` selects among those it is shown, which are all."""
        self._remove(connection, lambda source: _select_everywhere(source, select, self._sizes.part))

    def remove_keys(
        self, connection: DuckConnection, keys: Keys, select: Callable[[VisitRows], NDArray[np.bool_]]
    ) -> None:
        """Deletes the visits that `select` selects among those with these keys, which must be sorted and distinct."""

        def find(source: SortedVisits) -> NDArray[np.int64]:
            positions, rows = source.find(keys)
            return positions[select(rows)]

        self._remove(connection, find)

    def read_all(self) -> Iterator[VisitRows]:
        """Yields all visits, sorted by key, in parts; all visits with the same key are in the same part."""
        yield from merge_runs(self._list_sources(), self._sizes.part)

    def plan_merge(self, is_urgent: bool = False, is_early: bool = False) -> RunMerge | None:
        """Returns a merge of runs of similar size, or None if there are too few of them.

        A merge needs several runs, an urgent one twice as many, and an early one two short runs. Loads nothing.
        """
        if self._recent is None:
            return None
        min_runs = self._sizes.merged_runs * (2 if is_urgent else 1)
        merged_ids = self._select_mergeable(min_runs, 2 if is_early else min_runs)
        if not merged_ids:
            return None
        self._last_id += 1
        runs = {run_id: self._runs[run_id] for run_id in merged_ids}
        merge = RunMerge(self._last_id, self._run_path(self._last_id), runs, self._sizes.part // MERGE_READS_PER_PART)
        self._merges.append(merge)
        return merge

    def finish_merge(self, merge: RunMerge) -> None:
        """Replaces the merged runs by the run that was written, unless one of them was deleted in the meantime."""
        is_current = self._recent is not None and all(
            self._runs.get(run_id) is run for run_id, run in merge.runs.items()
        )
        if not is_current:
            self.drop_merge(merge)
            return
        try:
            with self.change(), self._database.write() as connection:
                self._list_run(connection, merge.run_id, merge.rows)
                for run_id in merge.runs:
                    self._delete_run(connection, run_id)
        finally:
            self._merges.remove(merge)

    def drop_merge(self, merge: RunMerge) -> None:
        """Deletes what a merge has written."""
        self._merges.remove(merge)
        with suppress(OSError):
            merge.path.unlink()

    def _select_mergeable(self, min_runs: int, min_short_runs: int) -> list[int]:
        """Returns runs of similar size, or none if there are too few of each size."""
        being_merged = {run_id for merge in self._merges for run_id in merge.runs}
        by_size: dict[int, list[int]] = {}
        for run_id, run in self._runs.items():
            if run_id in being_merged:
                continue
            size = 0
            while run.rows > self._sizes.recent * self._sizes.merged_runs ** (size + 1):
                size += 1
            by_size.setdefault(size, []).append(run_id)
        for size, run_ids in sorted(by_size.items()):
            if len(run_ids) >= (min_short_runs if size < self._sizes.short_sizes else min_runs):
                return run_ids[:min_runs]
        return []

    def _remove(self, connection: DuckConnection, find: Callable[[SortedVisits], NDArray[np.int64]]) -> None:
        recent = insert_sorted(*self._get_recent())
        if len(removed := find(recent)):
            recent = recent.take(np.delete(np.arange(len(recent)), removed))
            connection.execute("delete from visits")
            self._inserts.insert(connection, "visits", name_columns(recent))
            self._recent = recent, NO_VISITS
        for run_id, run in list(self._runs.items()):
            removed = find(run)
            if len(removed):
                run.verify()
                if len(removed) < run.rows:
                    read_kept = partial(_skip_rows, run, removed, self._sizes.part)
                    self._add_run(connection, run.rows - len(removed), run.bounds, read_kept)
                self._delete_run(connection, run_id)
            run.release_memory()

    def _add_run(
        self, connection: DuckConnection, rows: int, bounds: VisitBounds, read_parts: Callable[[], Iterable[VisitRows]]
    ) -> None:
        if not self._folder.exists():
            self._folder.mkdir()
            sync_to_disk(self._folder.parent)
        self._last_id += 1
        write_run(self._run_path(self._last_id), rows, bounds, read_parts)
        self._list_run(connection, self._last_id, rows)

    def _list_run(self, connection: DuckConnection, run_id: int, rows: int) -> None:
        run = open_run(self._run_path(run_id), rows)
        connection.execute("insert into visit_runs values ($id, $rows)", {"id": run_id, "rows": rows})
        for runs in (self._runs, *self._held_runs):
            runs[run_id] = run

    def _delete_run(self, connection: DuckConnection, run_id: int) -> None:
        connection.execute("delete from visit_runs where id = $id", {"id": run_id})
        self._obsolete.append(self._runs.pop(run_id))

    def _list_sources(self) -> list[SortedVisits]:
        return [*self._get_recent(), *self._runs.values()]

    def _get_recent(self) -> tuple[VisitRows, VisitRows]:
        assert self._recent is not None, "visits are used in a transaction"
        return self._recent

    def _load(self) -> None:
        self._open_and_clean_runs()
        self._move_long_table()
        with self._database.read() as connection:
            recent = read_visits(connection, "select key, scope, day, bits from visits").sort_by_key()
        self._recent = recent, NO_VISITS

    def _open_and_clean_runs(self) -> None:
        with self._database.read() as connection:
            listed = dict(connection.execute("select id, rows from visit_runs order by id").fetchall())
        self._runs = {run_id: open_run(self._run_path(run_id), rows) for run_id, rows in listed.items()}
        used_ids = [*listed, *(merge.run_id for merge in self._merges)]
        self._last_id = max(self._last_id, *used_ids, 0)  # a number is never used again
        names = {self._run_path(run_id).name for run_id in used_ids}
        for path in self._folder.iterdir() if self._folder.exists() else ():
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _move_long_table(self) -> None:
        """Moves the rows of a long table into runs. A restored backup has such a table, because it has no runs.

        Each part is a transaction, so that the move continues where it was interrupted.
        """
        while True:
            with self._database.write() as connection:
                [(rows,)] = connection.execute("select count(*) from visits").fetchall()
                if rows <= self._sizes.recent:
                    return
                log.info("moving %d visits into sorted files", rows)
                [(last,)] = connection.execute(
                    "select max(row) from (select rowid as row from visits order by rowid limit $rows)",
                    {"rows": self._sizes.moved},
                ).fetchall()
                params = {"last": last}
                moved = read_visits(
                    connection, "select key, scope, day, bits from visits where rowid <= $last", params
                ).sort_by_key()
                self._add_run(connection, len(moved), find_bounds(moved), partial(list, [moved]))
                connection.execute("delete from visits where rowid <= $last", params)
            self._database.checkpoint(force=True)

    def _run_path(self, run_id: int) -> Path:
        return get_run_path(self._database.path, run_id)


def read_visits(connection: DuckConnection, statement: str, params: dict[str, int] | None = None) -> VisitRows:
    """Returns the visits that a statement selects as key, scope, day and bits."""
    columns = connection.execute(statement, params or {}).fetchnumpy()
    return VisitRows(columns["key"], columns["scope"], columns["day"], columns["bits"])


def name_columns(rows: VisitRows) -> Columns:
    return {"scope": rows.scope, "key": rows.key, "day": rows.day, "bits": rows.bits}


def _select_everywhere(
    source: SortedVisits, select: Callable[[VisitRows], NDArray[np.bool_]], part_rows: int
) -> NDArray[np.int64]:
    found = [np.empty(0, np.int64)]
    for first in range(0, len(source), part_rows):
        found.append(np.flatnonzero(select(source.read_rows(first, first + part_rows))) + first)
        source.release_memory()
    return np.concatenate(found)


def _skip_rows(run: RunFile, removed: NDArray[np.int64], part_rows: int) -> Iterator[VisitRows]:
    """Yields the visits of a run except those at these positions."""
    for first in range(0, run.rows, part_rows):
        end = min(first + part_rows, run.rows)
        kept = np.ones(end - first, np.bool_)
        kept[removed[np.searchsorted(removed, first) : np.searchsorted(removed, end)] - first] = False
        if kept.any():
            yield run.read_rows(first, end).take(kept)
