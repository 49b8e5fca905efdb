"""Reports about sections, which are the beginnings of paths.

The index counts sections of the first level, and deeper ones that it was asked for. A section with one page has the
visitors of that page; those of other sections are counted from visits.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from copydesk.analytics.stores.base import DayRange, SectionQuery
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.ids.scopes import SECTION_SCOPE, find_scope_ids
from copydesk.analytics.stores.duckdb.reports.site_reports import SELECT_SITE, find_project
from copydesk.analytics.stores.duckdb.sections.page_sections import list_incomplete_sections
from copydesk.analytics.stores.duckdb.sections.section_visitors import SectionPages, count_section_visitors
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.analytics.stores.report_rows import Counts, SectionReport, SectionRow

READ_ATTEMPTS = 10
RETRY_SECONDS = 0.05
"""A report may read files that a merge deletes; the next attempt reads the merged one. Many short files may
be replaced within a second."""
SELECT_SCOPE_VISITORS = """
    select scope, sum(human)::bigint, sum(ai)::bigint, sum(total)::bigint from firsts
    where project = $project and scope in (select unnest($scopes::integer[]))
        and day >= $first and day < $end and prev < $first
    group by scope
"""


@dataclass(frozen=True, slots=True)
class SectionPage:
    """A page with its section, and its views by people and AI in the range."""

    scope: int
    salt: int
    section: str
    """The section of the requested depth, or "" if the path is shorter."""
    views: int


@dataclass(frozen=True, slots=True)
class SectionVisitors:
    """The visitors of all pages of a report, and of each section."""

    total: Counts
    by_section: dict[str, Counts]
    read_sections: Sequence[str] = ()
    """The sections that were counted from visits, and that the index could count."""
    read_views: int = 0
    """The views of these sections, which are at least as many as their visits."""


def list_sections(
    database: DuckDatabase, project_id: str, days: DayRange, limit: int, offset: int, query: SectionQuery
) -> tuple[SectionReport, SectionVisitors]:
    """Returns the report, and how its visitors were counted."""
    for attempt in range(READ_ATTEMPTS):
        try:
            with database.read() as connection:
                return _list_sections(connection, database, project_id, days, limit, offset, query)
        except StoreDamaged:
            if attempt == READ_ATTEMPTS - 1:
                raise
            time.sleep(RETRY_SECONDS)
    raise StoreDamaged


def _list_sections(
    connection: DuckConnection,
    database: DuckDatabase,
    project_id: str,
    days: DayRange,
    limit: int,
    offset: int,
    query: SectionQuery,
) -> tuple[SectionReport, SectionVisitors]:
    project = find_project(connection, project_id)
    params = {
        "project": project, "first": days.first, "end": days.end, "depth": query.depth, "prefix": query.prefix,
        "prefix_depth": query.prefix.count("/"),
    }  # fmt: skip
    pages = [SectionPage(*row) for row in connection.execute(load_sql("section_pages"), params).fetchall()]
    if not pages:
        return SectionReport(Counts(), 0, [], False), SectionVisitors(Counts(), {})
    views: dict[str, int] = {}
    for page in pages:
        views[page.section] = views.get(page.section, 0) + page.views
    visitors = _count_visitors(connection, database, project, pages, days, query.prefix)
    rows = [SectionRow(name, visitors.by_section[name], view_count) for name, view_count in views.items() if name]
    rows.sort(key=lambda row: (-row.count.total, row.section))
    is_truncated = len(rows) > offset + limit
    return SectionReport(visitors.total, sum(views.values()), rows[offset : offset + limit], is_truncated), visitors


def _count_visitors(
    connection: DuckConnection,
    database: DuckDatabase,
    project: int,
    pages: Sequence[SectionPage],
    days: DayRange,
    prefix: str,
) -> SectionVisitors:
    """Returns the visitors of pages and sections: from the index where it has them, or else from visits."""
    [(site, ai_mask)] = connection.execute(SELECT_SITE, {"project": project}).fetchall()
    pages_by_section: dict[str, list[SectionPage]] = {}
    for page in pages:
        pages_by_section.setdefault(page.section, []).append(page)
    scopes = {section: group[0].scope for section, group in pages_by_section.items() if len(group) == 1}
    total_scope = site if not prefix else pages[0].scope if len(pages) == 1 else None
    stored = find_scope_ids(connection, SECTION_SCOPE, project, {*pages_by_section, prefix})
    incomplete = set(list_incomplete_sections(connection))
    known = {section: scope for section, scope in stored.items() if scope not in incomplete}
    scopes |= known
    total_scope = known.get(prefix, total_scope)
    indexed = _count_indexed_visitors(connection, project, {*scopes.values(), *filter(None, [total_scope])}, days)
    visitors = {section: indexed.get(scope, Counts()) for section, scope in scopes.items()}
    unknown = pages_by_section.keys() - scopes.keys() - {""}
    if total_scope is not None and not unknown:
        return SectionVisitors(indexed.get(total_scope, Counts()), visitors)
    read_pages = pages if total_scope is None else [page for page in pages if page.section in unknown]
    names = sorted({page.section for page in read_pages})
    arrays = _build_arrays(read_pages, {name: number for number, name in enumerate(names)})
    *counted, union = count_section_visitors(
        connection, database.path, arrays, days, ai_mask, len(names), with_union=total_scope is None
    ).tolist()
    visitors |= {section: Counts(*count) for section, count in zip(names, counted, strict=True)}
    total = Counts(*union) if total_scope is None else indexed.get(total_scope, Counts())
    unindexed = sorted({*unknown, *([prefix] if total_scope is None else [])})
    return SectionVisitors(total, visitors, unindexed, arrays.views)


def _count_indexed_visitors(
    connection: DuckConnection, project: int, scopes: Collection[int], days: DayRange
) -> dict[int, Counts]:
    params = {"project": project, "scopes": list(scopes), "first": days.first, "end": days.end}
    rows = connection.execute(SELECT_SCOPE_VISITORS, params).fetchall()
    return {scope: Counts(*count) for scope, *count in rows}


def _build_arrays(pages: Sequence[SectionPage], numbers: dict[str, int]) -> SectionPages:
    size = max(page.scope for page in pages) + 1
    salt, section = np.zeros(size, np.int64), np.full(size, -1, np.int32)
    for page in pages:
        salt[page.scope], section[page.scope] = page.salt, numbers[page.section]
    return SectionPages(salt, section, sum(page.views for page in pages))
