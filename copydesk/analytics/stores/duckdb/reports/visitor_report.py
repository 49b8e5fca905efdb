"""The report of visitors by page, which is summed up from the index.

The sums of recent reports stay in memory, so that the next report for the same days adds only what folds have added to
the index since.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import DEFAULT_PAGE_QUERY, DayRange, PageQuery, SortColumn
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.links import NO_ROWS, IndexRows
from copydesk.analytics.stores.duckdb.folding.recent_folds import RecentFolds
from copydesk.analytics.stores.duckdb.folding.visit_rows import Scopes
from copydesk.analytics.stores.duckdb.reports.site_pages import NO_PAGES, SitePages, estimate_memory, load_new_pages
from copydesk.analytics.stores.duckdb.reports.site_reports import build_report_page
from copydesk.analytics.stores.duckdb.reports.snapshot import Snapshot, load_snapshots
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.report_rows import Counts, PageCounts, ReportPage

MAX_MEMORY_BYTES = 24_000_000
"""About how much memory the sums and the pages of all sites may need. One site's pages may need a quarter of it."""
MAX_RANGES_IN_MEMORY = 100
ORDER_BY_CLAUSES: dict[tuple[SortColumn, bool], str] = {
    ("path", False): "", ("path", True): "path desc,",
    ("human", False): "totals.human,", ("human", True): "totals.human desc,",
    ("ai", False): "totals.ai,", ("ai", True): "totals.ai desc,",
    ("total", False): "total,", ("total", True): "total desc,",
}  # fmt: skip
"""Inserted as text, not as parameters, because DuckDB plans such queries faster."""
HUMAN, AI, TOTAL = 0, 1, 2
COLUMNS: dict[SortColumn, int] = {"human": HUMAN, "ai": AI, "total": TOTAL}
PageSums = NDArray[np.int64]
"""The visitors of each page: a row each for human, AI and total."""
NO_SUMS: PageSums = np.zeros((3, 0), np.int64)
SumsKey = tuple[int, DayRange]
"""A project and a range of days."""


@dataclass(frozen=True, slots=True)
class RangeSums:
    """The visitors of a site and its pages in a range of days, as a snapshot has them."""

    snapshot: Snapshot
    pages: SitePages
    sums: PageSums


class VisitorReports:
    """The reports of visitors by page of a store. Thread-safe."""

    def __init__(self, database: DuckDatabase, recent_folds: RecentFolds, max_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._database = database
        self._recent_folds = recent_folds
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._ranges: dict[SumsKey, RangeSums] = {}
        """The least recently used first."""
        self._pages: dict[int, SitePages] = {}
        """The pages of the sites that have sums in memory, by project. They belong to the same change of views."""
        self._view_changes = 0

    def count_visitors_by_page(
        self, project_id: str, days: DayRange, limit: int, offset: int, query: PageQuery = DEFAULT_PAGE_QUERY
    ) -> ReportPage:
        with self._database.read() as connection:
            snapshots = load_snapshots(connection, [project_id])
            if not snapshots:
                return ReportPage(Counts(), [], False)
            [snapshot] = snapshots
            if not query.search and (range_sums := self._load_sums(connection, snapshot, days)):
                return _build_page(range_sums, limit, offset, query)
            params = {
                "project": snapshot.project, "first": days.first, "end": days.end,
                "limit": limit, "offset": offset, "search": query.search,
            }  # fmt: skip
            statement = load_sql("visitors").replace("/* order */", ORDER_BY_CLAUSES[query.by, query.descending])
            return build_report_page(connection.execute(statement, params).fetchall(), limit, offset)

    def _load_sums(self, connection: DuckConnection, snapshot: Snapshot, days: DayRange) -> RangeSums | None:
        """Returns the visitors in a range of days, or None if the site has too many pages."""
        key = snapshot.project, days
        known, pages = self._find(key, snapshot)
        new_rows = None if known is None else self._recent_folds.find(known.snapshot.folded, snapshot.folded)
        if known is not None and new_rows is not None:
            range_sums = _add_rows(connection, known, pages, new_rows, snapshot, days)
        elif len(pages) or estimate_memory(connection, snapshot.project) <= self._max_bytes // 4:
            range_sums = _sum_up(connection, pages, snapshot, days)
        else:
            return None
        self._remember(key, range_sums)
        return range_sums

    def _find(self, key: SumsKey, snapshot: Snapshot) -> tuple[RangeSums | None, SitePages]:
        """Returns what is in memory: the sums of the range, and the pages of the site."""
        with self._lock:
            if snapshot.view_changes != self._view_changes:
                return None, NO_PAGES
            known = self._ranges.get(key)
            if known is None or not known.snapshot.is_part_of(snapshot):
                return None, self._pages.get(snapshot.project, NO_PAGES)
            self._ranges[key] = self._ranges.pop(key)
            return known, self._pages[snapshot.project]

    def _remember(self, key: SumsKey, range_sums: RangeSums) -> None:
        """Keeps sums in memory, unless they belong to an earlier change of views. The least recently used leave."""
        project, _ = key
        with self._lock:
            if range_sums.snapshot.view_changes < self._view_changes:
                return
            if range_sums.snapshot.view_changes > self._view_changes:
                self._view_changes, self._ranges, self._pages = range_sums.snapshot.view_changes, {}, {}
            self._ranges.pop(key, None)
            self._ranges[key] = range_sums
            self._pages[project] = max(
                self._pages.get(project, NO_PAGES), range_sums.pages, key=lambda pages: pages.upto
            )
            while len(self._ranges) > MAX_RANGES_IN_MEMORY or self._estimate_memory() > self._max_bytes:
                self._drop_oldest()

    def _estimate_memory(self) -> int:
        sums_bytes = sum(range_sums.sums.nbytes for range_sums in self._ranges.values())
        return sums_bytes + sum(pages.memory_bytes for pages in self._pages.values())

    def _drop_oldest(self) -> None:
        """Drops the least recently used sums, and the pages of their site if it has no others."""
        oldest = next(iter(self._ranges))
        del self._ranges[oldest]
        if not any(project == oldest[0] for project, _ in self._ranges):
            del self._pages[oldest[0]]


def _sum_up(connection: DuckConnection, known_pages: SitePages, snapshot: Snapshot, days: DayRange) -> RangeSums:
    params = {"project": snapshot.project, "first": days.first, "end": days.end}
    columns = connection.execute(load_sql("visitor_sums"), params).fetchnumpy()
    scope = columns["scope"]
    pages = load_new_pages(connection, snapshot.project, known_pages, int(scope.max(initial=0)))
    new_sums = np.stack([columns["human"], columns["ai"], columns["total"]])
    return RangeSums(snapshot, pages, _add_sums(pages, NO_SUMS, scope, new_sums))


def _add_rows(
    connection: DuckConnection,
    known: RangeSums,
    pages: SitePages,
    new_rows: Sequence[IndexRows],
    snapshot: Snapshot,
    days: DayRange,
) -> RangeSums:
    """Returns known sums with rows of the index added."""
    last_scope = max((int(rows.scope.max(initial=0)) for rows in new_rows), default=0)
    if last_scope > pages.upto:
        pages = load_new_pages(connection, snapshot.project, pages, last_scope)
    scope, day, prev, *numbers = (
        np.concatenate(columns) for columns in zip(*(rows.columns() for rows in [NO_ROWS, *new_rows]), strict=True)
    )
    is_counted = np.flatnonzero((day >= days.first) & (day < days.end) & (prev < days.first))
    new_sums = np.stack(numbers)[:, is_counted].astype(np.int64)
    return RangeSums(snapshot, pages, _add_sums(pages, known.sums, scope[is_counted], new_sums))


def _add_sums(pages: SitePages, sums: PageSums, scope: Scopes, new_sums: PageSums) -> PageSums:
    """Returns the sums of all pages with new ones added. Those of other scopes are left out."""
    added = np.zeros((3, len(pages)), np.int64)
    added[:, : sums.shape[1]] = sums
    positions = np.minimum(np.searchsorted(pages.ids, scope), len(pages) - 1)
    is_page = pages.ids[positions] == scope
    for column, new_column in zip(added, new_sums, strict=True):
        np.add.at(column, positions[is_page], new_column[is_page])
    return added


def _build_page(range_sums: RangeSums, limit: int, offset: int, query: PageQuery) -> ReportPage:
    pages, sums = range_sums.pages, range_sums.sums
    site = int(np.searchsorted(pages.ids, range_sums.snapshot.site))
    positions = pages.by_path[sums[TOTAL, pages.by_path] > 0]
    if query.by != "path":
        numbers = sums[COLUMNS[query.by], positions]
        positions = positions[np.argsort(-numbers if query.descending else numbers, kind="stable")]
    elif query.descending:
        positions = positions[::-1]
    shown = positions[offset : offset + limit].tolist()
    rows = [
        PageCounts(pages.paths[position], Counts(*counts))
        for position, counts in zip(shown, sums[:, shown].T.tolist(), strict=True)
    ]
    return ReportPage(Counts(*sums[:, site].tolist()), rows, len(positions) > offset + limit)
