"""Counts the unique visitors of sections from the visits of their pages.

Sections have no visits of their own: a section is a union of pages, and visits of each section would take more space
than those of all pages.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.run_file import RunFile, get_run_path
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, VisitRows
from copydesk.analytics.stores.duckdb.folding.visit_runs import read_visits

ROWS_PER_READ = 1_000_000
MAX_VISITS_PER_PASS = 2_000_000
"""Visits that are sorted at once. More are split by visitor, which bounds the memory."""
HUMAN, AI = 1, 2
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SectionPages:
    """The pages whose visitors are counted, by the number of the page: their salts, and the numbers of their sections.

    Section -1 means that the visits of a scope are not counted.
    """

    salt: NDArray[np.int64]
    section: NDArray[np.int32]


def count_section_visitors(
    connection: DuckConnection, path: Path, pages: SectionPages, days: DayRange, ai_mask: int, sections: int
) -> Numbers:
    """Returns how many people, AI and either visited each section, as rows of three numbers; the last row is the union
    of all sections.

    Raises StoreDamaged if a run was deleted since the transaction began; the caller tries again.
    """
    sources = _open_sources(connection, path)
    selected = [sum(len(part) for part in _select_visits(source, pages, days)) for source in sources]
    passes = 1 + sum(selected) // MAX_VISITS_PER_PASS
    counts = np.zeros((sections + 1, 3), np.int64)
    for number in range(passes):
        visitors, numbers, kinds = [], [], []
        for source in sources:
            for part in _select_visits(source, pages, days):
                visitor = part.key ^ pages.salt[part.scope]
                chosen = slice(None) if passes == 1 else np.flatnonzero(visitor % passes == number)
                bits = part.bits[chosen]
                kind = ((bits & HUMAN_BIT) != 0) * np.uint8(HUMAN) | ((bits & ai_mask) != 0) * np.uint8(AI)
                visitors.append(visitor[chosen])
                numbers.append(pages.section[part.scope[chosen]])
                kinds.append(kind)
        if visitors:
            counts += _count_distinct(
                np.concatenate(visitors), np.concatenate(numbers), np.concatenate(kinds), sections
            )
    return counts


def _open_sources(connection: DuckConnection, path: Path) -> list[VisitRows | RunFile]:
    recent = read_visits(connection, "select key, scope, day, bits from visits")
    runs = connection.execute("select id, rows from visit_runs").fetchall()
    return [recent, *(RunFile(get_run_path(path, run_id), rows) for run_id, rows in runs)]


def _select_visits(source: VisitRows | RunFile, pages: SectionPages, days: DayRange) -> Iterator[VisitRows]:
    """Yields the visits of the pages in the range, in parts."""
    for first in range(0, len(source.key), ROWS_PER_READ):
        part = source.take(slice(first, first + ROWS_PER_READ))
        in_range = np.flatnonzero((part.day >= days.first) & (part.day < days.end) & (part.scope < len(pages.section)))
        counted = in_range[pages.section[part.scope[in_range]] >= 0]
        if len(counted):
            yield part.take(counted)
    if isinstance(source, RunFile):
        source.release_memory()


def _count_distinct(visitor: Keys, section: NDArray[np.int32], kind: NDArray[np.uint8], sections: int) -> Numbers:
    """Counts each visitor of a section once for each of human, AI and either, and of all sections likewise."""
    is_counted = kind != 0
    visitor, section, kind = visitor[is_counted], section[is_counted], kind[is_counted]
    if not len(visitor):
        return np.zeros((sections + 1, 3), np.int64)
    order = np.argsort(visitor)
    ordered = visitor[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    # Visitors get small numbers, so that visitor, section and kind fit one number, which sorts faster than three.
    codes = np.sort(((np.cumsum(is_first) - 1) * sections + section[order]) << 2 | kind[order])
    of_section, kinds = _combine_kinds(codes >> 2, codes & 3)
    _, kinds_of_all = _combine_kinds(of_section // sections, kinds)
    rows = [_count_kinds(kinds, of_section % sections, sections), _count_kinds(kinds_of_all, kinds_of_all * 0, 1)]
    return np.concatenate(rows)


def _combine_kinds(group: Numbers, kind: Numbers) -> tuple[Numbers, Numbers]:
    """Returns each group once, with all its kinds. Equal groups must follow each other."""
    is_first = np.ones(len(group), np.bool_)
    is_first[1:] = group[1:] != group[:-1]
    starts = np.flatnonzero(is_first)
    return group[starts], np.bitwise_or.reduceat(kind, starts)


def _count_kinds(kind: Numbers, section: Numbers, sections: int) -> Numbers:
    columns = [kind & HUMAN != 0, kind & AI != 0, kind != 0]
    return np.stack([np.bincount(section[column], minlength=sections) for column in columns], axis=1)
