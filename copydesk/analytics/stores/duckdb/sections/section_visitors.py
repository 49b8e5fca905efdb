"""Counts the unique visitors of sections from the visits of their pages, for sections that have no visits of their own:
visits of all levels of sections would take more space than those of all pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.links import AI, HUMAN, find_kinds
from copydesk.analytics.stores.duckdb.folding.runs.open_run import get_run_path, open_run
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import read_visits
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, VisitRows, find_sorted, sort_distinct
from copydesk.analytics.stores.duckdb.sections.visitor_groups import Records, count_groups, split_by_visitor

ROWS_PER_READ = 1_000_000
MAX_VISITS_IN_MEMORY = 2_000_000
"""Visits that are sorted at once. More are split by visitor into temporary files, which bounds the memory."""
VISIT_TYPE = np.dtype([("visitor", np.int64), ("section", np.int32), ("kind", np.uint8)])
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SectionPages:
    """The pages whose visitors are counted, by the number of the page: their salts, and the numbers of their sections.

    Section -1 means that the visits of a scope are not counted.
    """

    salt: NDArray[np.int64]
    section: NDArray[np.int32]
    views: int
    """The views of all these pages by people and AI, which are at least as many as the visits."""


def count_section_visitors(
    connection: DuckConnection,
    path: Path,
    pages: SectionPages,
    days: DayRange,
    ai_mask: int,
    sections: int,
    with_union: bool,
) -> Numbers:
    """Returns how many people, AI and either visited each section, as rows of three numbers; the last row is the union
    of all sections, or zeros without it.

    Raises StoreDamaged if a run was deleted since the transaction began; the caller tries again.
    """
    parts = (
        _select_counted(part, pages, ai_mask)
        for source in _open_sources(connection, path)
        for part in _select_visits(source, pages, days)
    )
    counts = np.zeros((sections + 1, 3), np.int64)
    groups = count_groups(pages.views, MAX_VISITS_IN_MEMORY)
    for visits in [_join_parts(list(parts))] if groups == 1 else split_by_visitor(parts, groups, path.parent):
        counts += _count_by_section(visits, sections, with_union)
    return counts


def _open_sources(connection: DuckConnection, path: Path) -> list[VisitRows | RunFile]:
    recent = read_visits(connection, "select key, scope, day, bits from visits")
    runs = connection.execute("select id, rows from visit_runs").fetchall()
    return [recent, *(open_run(get_run_path(path, run_id), rows) for run_id, rows in runs)]


def _select_visits(source: VisitRows | RunFile, pages: SectionPages, days: DayRange) -> Iterator[VisitRows]:
    """Yields the visits of the pages in the range, in parts."""
    for first in range(0, len(source), ROWS_PER_READ):
        part = source.read_rows(first, first + ROWS_PER_READ)
        in_range = np.flatnonzero((part.day >= days.first) & (part.day < days.end) & (part.scope < len(pages.section)))
        counted = in_range[pages.section[part.scope[in_range]] >= 0]
        if len(counted):
            yield part.take(counted)
        source.release_memory()


def _select_counted(visits: VisitRows, pages: SectionPages, ai_mask: int) -> Records:
    """Returns the visits by people and AI."""
    kind = find_kinds(visits.bits, HUMAN_BIT, ai_mask)
    counted = np.flatnonzero(kind)
    scope = visits.scope[counted]
    records = np.empty(len(counted), VISIT_TYPE)
    records["visitor"] = visits.key[counted] ^ pages.salt[scope]
    records["section"], records["kind"] = pages.section[scope], kind[counted]
    return records


def _join_parts(parts: Sequence[Records]) -> Records:
    return np.concatenate([np.empty(0, VISIT_TYPE), *parts])


def _count_by_section(visits: Records, sections: int, with_union: bool) -> Numbers:
    """Counts the visitors of each section, and of the union in the last row."""
    small_type = np.uint16 if sections <= 1 << 16 else np.uint32  # numbers of 16 bits are sorted much faster
    section = visits["section"].astype(small_type)
    order = np.argsort(section, kind="stable")
    visitor, kind = visits["visitor"][order], visits["kind"][order]
    bounds = np.searchsorted(section[order], np.arange(sections + 1)).tolist()
    rows = [_count_distinct(visitor[first:end], kind[first:end]) for first, end in pairwise(bounds)]
    return np.array([*rows, _count_distinct(visitor, kind) if with_union else (0, 0, 0)], np.int64)


def _count_distinct(visitor: Keys, kind: NDArray[np.uint8]) -> tuple[int, int, int]:
    """Returns how many visitors are people, AI and either."""
    people, ai = (sort_distinct(visitor[(kind & wanted) != 0]) for wanted in (HUMAN, AI))
    both = len(find_sorted(people, ai))
    return len(people), len(ai), len(people) + len(ai) - both
