"""Merges runs into one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import join_bounds
from copydesk.analytics.stores.duckdb.folding.runs.run_writer import write_run
from copydesk.analytics.stores.duckdb.folding.visit_rows import SortedVisits, VisitRows, merge_sorted
from copydesk.core.runtime.memory import return_free_memory

FULL_PART_RUNS = 4
"""Up to this many runs are read in whole parts; of more runs, each part has fewer rows, to bound the memory."""
PARTS_BETWEEN_RELEASES = 16
"""After so many parts, free memory is returned: malloc keeps much of it between the arrays of other threads."""


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
        runs = list(self.runs.values())
        bounds = join_bounds(run.bounds for run in runs)

        def read_parts() -> Iterator[VisitRows]:
            return _yield_until_stopped(merge_runs(runs, self.part_rows), is_stopping)

        try:
            write_run(self.path, self.rows, bounds, read_parts)
        except MergeStopped:
            return False
        return True


class MergeStopped(Exception):
    """The store is closing."""


def _yield_until_stopped(parts: Iterable[VisitRows], is_stopping: Callable[[], bool]) -> Iterator[VisitRows]:
    for number, part in enumerate(parts, 1):
        if is_stopping():
            raise MergeStopped
        yield part
        if number % PARTS_BETWEEN_RELEASES == 0:
            return_free_memory()


def merge_runs(sources: Sequence[SortedVisits], rows: int) -> Iterator[VisitRows]:
    """Yields all visits, sorted by key, in parts. Returns the memory of each part."""
    for part in merge_sorted(sources, max(1, rows * FULL_PART_RUNS // max(len(sources), 1))):
        yield part
        for source in sources:
            source.release_memory()
