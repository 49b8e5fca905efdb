"""Finds the visits of sections among those of their pages, for sections that are new in the index."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.visit_rows import SortedVisits, VisitRows
from copydesk.analytics.stores.duckdb.sections.visitor_groups import Records

ROWS_PER_READ = 500_000
SECTION_VISIT_TYPE = np.dtype([("visitor", np.int64), ("scope", np.int32), ("day", np.uint16), ("bits", np.uint8)])
"""The visitor is the key of a visit to a section, because all sections of a site have the same keys."""
SELECT_TREE = """
    select id, sort, salt, section from scopes
    where sort in (0, 32) and project in (select project from scopes where id in (from incomplete_sections))
"""


@dataclass(frozen=True, slots=True)
class PageSections:
    """The pages of incomplete sections, by the id of the page."""

    sections: Sequence[int]
    """The incomplete sections."""
    levels: Sequence[NDArray[np.int32]]
    """The incomplete sections of each page: one of them in each array; 0 means none."""
    key_change: NDArray[np.int64]
    """The key of a visit to a page, xor this, is the key of a visit to its sections."""


def list_incomplete_sections(connection: DuckConnection) -> list[int]:
    """Returns the sections whose earlier visits are not all in the index."""
    return [section for (section,) in connection.execute("select scope from incomplete_sections").fetchall()]


def load_page_sections(connection: DuckConnection) -> PageSections | None:
    """Returns the pages of incomplete sections; None if all sections are complete."""
    sections = list_incomplete_sections(connection)
    if not sections:
        return None
    tree = connection.execute(SELECT_TREE).fetchnumpy()
    size = max(int(tree["id"].max()) + 1, max(sections) + 1)
    outer, salt, is_wanted = np.zeros(size, np.int32), np.zeros(size, np.int64), np.zeros(size, np.bool_)
    outer[tree["id"]], salt[tree["id"]], is_wanted[sections] = tree["section"], tree["salt"], True
    is_page = np.zeros(size, np.bool_)
    is_page[tree["id"][tree["sort"] == 0]] = True
    levels = [np.where(is_wanted[section], section, 0) for section in _climb(outer, np.where(is_page, outer, 0))]
    key_change = np.zeros(size, np.int64)
    for level in levels:
        inside = np.flatnonzero(level)
        key_change[inside] = salt[inside] ^ salt[level[inside]]
    return PageSections(sections, [level for level in levels if level.any()], key_change)


def _climb(outer: NDArray[np.int32], sections: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    """Yields sections, then the sections around them, and so on."""
    while sections.any():
        yield sections
        sections = outer[sections]


def select_section_visits(sources: Sequence[SortedVisits], pages: PageSections) -> Iterator[Records]:
    """Yields the visits of the incomplete sections, from the visits of their pages."""
    for source in sources:
        for first in range(0, len(source), ROWS_PER_READ):
            part = source.read_rows(first, first + ROWS_PER_READ)
            part = part.take(np.flatnonzero(part.scope < len(pages.key_change)))
            for level in pages.levels:
                section = level[part.scope]
                inside = np.flatnonzero(section)
                if len(inside):
                    yield _build_records(part.take(inside), section[inside], pages.key_change)
            source.release_memory()


def _build_records(visits: VisitRows, section: NDArray[Any], key_change: NDArray[np.int64]) -> Records:
    records = np.empty(len(visits), SECTION_VISIT_TYPE)
    records["visitor"], records["scope"] = visits.key ^ key_change[visits.scope], section
    records["day"], records["bits"] = visits.day, visits.bits
    return records
