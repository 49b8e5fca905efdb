"""A merge of runs into one, and the writing of runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from copydesk.analytics.stores.duckdb.folding.run_file import RunFile, write_run
from copydesk.analytics.stores.duckdb.folding.visit_rows import SortedVisits, VisitRows, merge_sorted
from copydesk.analytics.stores.errors import StoreFull

FULL_PART_RUNS = 4
"""Up to this many runs are read in whole parts; of more runs, each part has fewer rows, to bound the memory."""


@dataclass(frozen=True)
class RunMerge:
    """Runs that become one. Writing it needs no lock, because runs never change."""

    run_id: int
    path: Path
    runs: dict[int, RunFile]
    part_rows: int

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs.values())

    def write(self, is_stopping: Callable[[], bool]) -> bool:
        """Writes the merged run. Returns False if it was stopped. Raises StoreDamaged if a run is damaged."""
        for run in self.runs.values():
            run.verify()
        try:
            parts = merge_runs(list(self.runs.values()), self.part_rows)
            write_visits(self.path, self.rows, _yield_until_stopped(parts, is_stopping))
        except MergeStopped:
            return False
        return True


class MergeStopped(Exception):
    """The store is closing."""


def _yield_until_stopped(parts: Iterable[VisitRows], is_stopping: Callable[[], bool]) -> Iterator[VisitRows]:
    for part in parts:
        if is_stopping():
            raise MergeStopped
        yield part


def write_visits(path: Path, rows: int, parts: Iterable[VisitRows]) -> None:
    """Writes a run. Raises StoreFull if the disk refuses it."""
    try:
        write_run(path, rows, parts)
    except OSError as error:
        raise StoreFull from error


def merge_runs(sources: Sequence[SortedVisits], rows: int) -> Iterator[VisitRows]:
    """Yields all visits, sorted by key, in parts. Returns the memory of each part."""
    for part in merge_sorted(sources, max(1, rows * FULL_PART_RUNS // max(len(sources), 1))):
        yield part
        for source in sources:
            if isinstance(source, RunFile):
                source.release_memory()
