"""Makes visits and runs of them for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.open_run import open_run
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import find_bounds
from copydesk.analytics.stores.duckdb.folding.runs.run_writer import write_run
from copydesk.analytics.stores.duckdb.folding.visit_rows import VisitRows, join_visits

PAGE_ROWS = 128
"""The visits of a page of a short file."""


def make_visits(count: int, seed: int = 1) -> VisitRows:
    """Makes visits sorted by key. Most keys occur several times."""
    chance = np.random.default_rng(seed)
    return VisitRows(
        np.sort(chance.integers(0, max(count // 2, 1), count, dtype=np.int64)),
        chance.integers(1, 9, count, dtype=np.int32),
        chance.integers(1, 99, count, dtype=np.uint16),
        chance.integers(1, 31, count, dtype=np.uint8),
    )


def make_hashed_visits(count: int, seed: int = 1) -> VisitRows:
    """Makes visits with keys that are spread over all numbers, as hashes are. Many occur twice."""
    visits = make_visits(count, seed)
    return VisitRows(visits.key * (2**63 // max(count // 2, 1)), visits.scope, visits.day, visits.bits)


def write_visits(path: Path, *parts: VisitRows) -> RunFile:
    """Writes a run of these parts, opens it, and reads all of it."""
    visits = join_visits(parts)
    write_run(path, len(visits), find_bounds(visits), lambda: parts)
    run = open_run(path, len(visits))
    run.verify()
    return run


def split_visits(visits: VisitRows, part_rows: int) -> Sequence[VisitRows]:
    return [visits.take(slice(first, first + part_rows)) for first in range(0, len(visits), part_rows)]


def to_tuples(rows: VisitRows) -> list[tuple[int, int, int, int]]:
    return sorted(zip(*(column.tolist() for column in rows.columns()), strict=True))
