"""The protocol of analytics stores and its types. A day is a UTC day, as days since 1970."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.errors import DayOutOfRange
from copydesk.analytics.stores.export_format import ExportDay, ExportFormat
from copydesk.analytics.stores.report_rows import (
    AgentRow,
    HourlyReport,
    MissingReport,
    PageDetail,
    ReferrerReport,
    ReportPage,
    RuleRow,
    SectionReport,
    SiteTotals,
    TimeseriesPoint,
)
from copydesk.core.clock import DAY

CLASS_BITS = {"human": 1, "assistant": 2, "search": 4, "training": 8, "other": 16}
"""A visit stores one bit per class, so that the choice of AI classes can change later."""
DEFAULT_AI_CLASSES = frozenset({"assistant"})
FIRST_DAY, LAST_DAY = 1, 65_534
"""1970-01-02 to 2149-06-05: days are stored in two bytes, and 0 means never."""

MASK_63_BITS = (1 << 63) - 1

MAX_PAGE_DETAIL_ROWS = 50
"""How many agents and how many referrers of one page are reported."""

Interval = Literal["day", "week", "month"]
SortColumn = Literal["path", "human", "ai", "total"]


@dataclass(frozen=True)
class LogResult:
    accepted: int
    duplicates: tuple[int, ...] = ()
    """Positions of the views that were not logged, because their project has logged their event before."""


@dataclass(frozen=True)
class PageQuery:
    """Filter and order of a report. Ties are ordered by path."""

    search: str = ""
    """A part of the path; case-insensitive."""
    by: SortColumn = "total"
    descending: bool = True


DEFAULT_PAGE_QUERY = PageQuery()


@dataclass(frozen=True)
class SectionQuery:
    """Selects sections: prefixes of paths with `depth` segments, below the section `prefix`; "" means the site."""

    prefix: str = ""
    depth: int = 1


MAX_SECTION_DEPTH = 10
"""Sections have at most this many segments."""


@dataclass(frozen=True)
class RawViewLimits:
    """Up to how many views in a range a report counts visitors from raw views. Beyond them, it reports views only."""

    of_page: int = 1_000_000
    """Views of the page, each of which is counted."""
    of_site: int = 200_000_000
    """Views of the whole site, which are searched for those of the page. If a store has a copy of some of them that is
    sorted by page, the limit applies to the others."""


DEFAULT_RAW_VIEW_LIMITS = RawViewLimits()


@dataclass(frozen=True)
class DayRange:
    """Days from `first` (inclusive) to `end` (exclusive)."""

    first: int = FIRST_DAY
    end: int = LAST_DAY + 1


ALL_DAYS = DayRange()
TOP_SECTIONS = SectionQuery()


@dataclass(frozen=True)
class Reclassification:
    """A new class for the views that a rule classified as this agent."""

    rule: str
    agent: str
    operator: str
    kind: str
    new_rule: str
    new_agent: str
    new_operator: str
    new_kind: str


@dataclass(frozen=True)
class Correction:
    views: int
    """How many views were corrected."""
    skipped_days: tuple[int, ...] = ()
    """Days that were not corrected, because some of their raw views were deleted."""


def shorten_event_hash(event_hash: int) -> int:
    """Returns the 63 bits of an event's hash that stores keep. All stores use the same bits, so that events are still
    recognized after a move to another store."""
    return (event_hash ^ event_hash >> 64) & MASK_63_BITS


def day_from_milliseconds(milliseconds: int) -> int:
    """Returns the UTC day of a time. Raises DayOutOfRange for days that stores cannot hold."""
    day = milliseconds // DAY
    if not FIRST_DAY <= day <= LAST_DAY:
        raise DayOutOfRange
    return day


class Store(Protocol):
    """An analytics store.

    `log_views` stores views, `fold` counts them, and reports return exact numbers. Thread-safe.
    """

    def log_views(self, views: Sequence[PageView]) -> LogResult:
        """Stores views atomically, except duplicates; durable on return.

        A view is a duplicate if its project has logged its event before. A view without an event is never one.
        """

    def prepare_logging(self) -> None:
        """Loads in the background what logging views with events needs. They can be logged before; that is slower."""

    def ping(self) -> None:
        """Returns once the store answers. Raises an error if it is unavailable."""

    def backlog(self) -> int:
        """Returns how many logged views are not folded yet. Reports do not include them."""

    def fold(self) -> int:
        """Counts the views that were logged since the last fold, including late views of past days.

        Returns how many.
        """

    def count_visitors_by_page(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: PageQuery = DEFAULT_PAGE_QUERY,
    ) -> ReportPage:
        """Returns unique visitors by page, most first, then by path. Omits pages without visitors.

        The query changes which pages are returned and their order, never the totals.
        """

    def count_views_by_page(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReportPage:
        """Returns views by page, most first, then by path. Omits pages without views."""

    def list_agents(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        """Returns the agents of all classes, by visitors, then views, then name; and whether there are more."""

    def list_missing_pages(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> MissingReport:
        """Returns the paths whose requests found no page, by unique visitors, then by path.

        Omits paths that neither people nor AI requested. Requests for missing pages are in no other report.
        """

    def list_referrers(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReferrerReport:
        """Returns where people came from, by unique visitors, then views, then name; and the totals by kind.

        A view from another page of the same host is no arrival and not included. With the limit 0, only totals are
        counted, which is faster.
        """

    def list_sections(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: SectionQuery = TOP_SECTIONS,
    ) -> SectionReport:
        """Returns unique visitors by section, most first, then by section. Omits sections without views.

        A page belongs to the section of its own path and to those above it. Sections that are not in an index are
        counted from the visits of all their pages in the range, so the cost grows with these.
        """

    def load_page(
        self,
        project_id: str,
        path: str,
        days: DayRange = ALL_DAYS,
        limits: RawViewLimits = DEFAULT_RAW_VIEW_LIMITS,
    ) -> PageDetail | None:
        """Returns the numbers of one page, or None if no view of it was counted on any day.

        Agents and referrers are counted from raw views, so deleted raw views are missing there; the other numbers are
        from the index. If there are more views than the limits, agents and referrers have views but no visitors.
        """

    def list_rules(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 1000, with_missing: bool = False
    ) -> Sequence[RuleRow]:
        """Returns the rules that classified each agent's views, and requests for missing pages if `with_missing`, most
        views first.

        Reads raw views, so deleted raw views are not included, and the cost grows with the number of views in the
        range.
        """

    def load_timeseries(
        self, project_id: str, interval: Interval, days: DayRange = ALL_DAYS
    ) -> Sequence[TimeseriesPoint]:
        """Returns visitors and views by interval. Weeks start on Monday. Only days in the range are counted."""

    def count_site_totals(self, project_ids: Collection[str], days: DayRange = ALL_DAYS) -> Sequence[SiteTotals]:
        """Returns the totals of several projects with one query, by project ID. Omits projects without views."""

    def load_hours(self, project_id: str, first_at: int, end_at: int) -> HourlyReport:
        """Returns visitors and views by hour from `first_at` to before `end_at`, in milliseconds since 1970.

        Reads raw views, so deleted raw views are not included, and the cost grows with the number of views in that
        time. The embedded store keeps the visitors of recently requested days in memory and reads only new views of
        them.
        """

    def set_ai_classes(self, project_id: str, classes: Collection[str], timeout_seconds: float | None = None) -> None:
        """Changes which classes count as AI, also for views that are already folded.

        ClickHouse stores wait at most `timeout_seconds` for the leases of the shards; None means their default.
        """

    def rebuild_index(self) -> None:
        """Rebuilds the index from the visits."""

    def delete_raw_views(self, before_day: int, project_ids: Collection[str] | None = None) -> int:
        """Deletes folded raw views of days before this day, of these projects (None means all). Returns how many.

        Reports keep their numbers, except `list_rules`.
        """

    def withdraw_views(self, project_id: str, events: Sequence[int]) -> int:
        """Deletes the views of these events, so that the events can be logged again. Returns how many.

        Raises RawViewsDeleted, and changes nothing, if raw views of their days were deleted.
        """

    def reclassify_views(self, project_id: str, changes: Sequence[Reclassification], version: str) -> Correction:
        """Gives raw views another class, and the version of the agent table that it is from.

        Skips days of which raw views were deleted.
        """

    def forget_project(self, project_id: str) -> None:
        """Deletes all data of a project."""

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        """Deletes the visits of a visitor. The views stay, without a visitor."""

    def back_up(self, target: Path) -> None:
        """Writes a consistent copy to a new file, while the store stays available."""

    def find_export_range(self, project_id: str) -> DayRange | None:
        """Returns the days from the first to the last folded view of a project; None if it has none."""

    def list_export_days(self, project_id: str, days: DayRange) -> Sequence[ExportDay]:
        """Returns the days that have folded views, with fingerprints that say whether their data has changed.

        The cost grows with the number of views in the range.
        """

    def export_day(self, project_id: str, dataset: str, day: int, file_format: ExportFormat, target: Path) -> int:
        """Writes a dataset of a day to a file, and returns its number of rows.

        Replaces an existing file. Uses an amount of memory that does not depend on the number of views.
        """

    def close(self) -> None: ...
