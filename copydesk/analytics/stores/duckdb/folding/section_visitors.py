"""Counts the unique visitors of sections from the visits of their pages, for sections that have no visits of their own:
visits of all levels of sections would take more space than those of all pages."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.links import AI, HUMAN, find_kinds
from copydesk.analytics.stores.duckdb.folding.run_file import RunFile, get_run_path
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.folding.visit_rows import NO_VISITS, Keys, VisitRows, find_sorted, sort_distinct
from copydesk.analytics.stores.duckdb.folding.visit_runs import read_visits
from copydesk.analytics.stores.errors import StoreFull

ROWS_PER_READ = 1_000_000
MAX_VISITS_IN_MEMORY = 2_000_000
"""Visits that are sorted at once. More are split by visitor into temporary files, which bounds the memory."""
MAX_TEMPORARY_FILES = 200
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


@dataclass(frozen=True, slots=True)
class CountedVisits:
    """Visits of people and AI in some sections."""

    visitor: Keys
    section: NDArray[np.int32]
    kind: NDArray[np.uint8]


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
    groups = min(1 + pages.views // MAX_VISITS_IN_MEMORY, MAX_TEMPORARY_FILES)
    for visits in [_join_parts(list(parts))] if groups == 1 else _split_by_visitor(parts, groups, path.parent):
        counts += _count_by_section(visits, sections, with_union)
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


def _select_counted(visits: VisitRows, pages: SectionPages, ai_mask: int) -> CountedVisits:
    """Returns the visits by people and AI."""
    kind = find_kinds(visits.bits, HUMAN_BIT, ai_mask)
    counted = np.flatnonzero(kind)
    scope = visits.scope[counted]
    return CountedVisits(visits.key[counted] ^ pages.salt[scope], pages.section[scope], kind[counted])


def _join_parts(parts: Sequence[CountedVisits]) -> CountedVisits:
    return CountedVisits(
        np.concatenate([NO_VISITS.key, *(part.visitor for part in parts)]),
        np.concatenate([NO_VISITS.scope, *(part.section for part in parts)]),
        np.concatenate([NO_VISITS.bits, *(part.kind for part in parts)]),
    )


def _split_by_visitor(parts: Iterable[CountedVisits], groups: int, folder: Path) -> Iterator[CountedVisits]:
    """Yields the visits in groups that have no visitor in common, from temporary files in a folder.

    Raises StoreFull if the disk refuses them.
    """
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(TemporaryFile(dir=folder)) for _ in range(groups)]
            for part in parts:
                group = (part.visitor % groups).astype(np.uint8)
                order = np.argsort(group, kind="stable")
                rows = np.empty(len(order), VISIT_TYPE)
                rows["visitor"], rows["section"], rows["kind"] = part.visitor, part.section, part.kind
                rows = rows[order]
                bounds = np.searchsorted(group[order], np.arange(groups + 1))
                for file, (first, end) in zip(files, pairwise(bounds.tolist()), strict=True):
                    file.write(rows[first:end].tobytes())
            for file in files:
                file.seek(0)
                rows = np.frombuffer(file.read(), VISIT_TYPE)
                yield CountedVisits(*(np.ascontiguousarray(rows[name]) for name in VISIT_TYPE.names or ()))
        except OSError as error:
            raise StoreFull from error


def _count_by_section(visits: CountedVisits, sections: int, with_union: bool) -> Numbers:
    """Counts the visitors of each section, and of the union in the last row."""
    small_type = np.uint16 if sections <= 1 << 16 else np.uint32  # numbers of 16 bits are sorted much faster
    order = np.argsort(visits.section.astype(small_type), kind="stable")
    visitor, kind = visits.visitor[order], visits.kind[order]
    bounds = np.searchsorted(visits.section[order], np.arange(sections + 1)).tolist()
    rows = [_count_distinct(visitor[first:end], kind[first:end]) for first, end in pairwise(bounds)]
    return np.array([*rows, _count_distinct(visitor, kind) if with_union else (0, 0, 0)], np.int64)


def _count_distinct(visitor: Keys, kind: NDArray[np.uint8]) -> tuple[int, int, int]:
    """Returns how many visitors are people, AI and either."""
    people, ai = (sort_distinct(visitor[(kind & wanted) != 0]) for wanted in (HUMAN, AI))
    both = len(find_sorted(people, ai))
    return len(people), len(ai), len(people) + len(ai) - both
