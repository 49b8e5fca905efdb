"""What every store of views can do, and the few types it speaks. A day is a UTC day, counted from 1970."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from copydesk.analytics.page_view import PageView
from copydesk.core.clock import DAY
from copydesk.core.errors import RequestError, StoreUnavailable

CLASS_BITS = {"human": 1, "assistant": 2, "search": 4, "training": 8, "other": 16}
"""A visit keeps one bit per class, so that which classes count as AI can change without a loss."""
DEFAULT_AI_CLASSES = frozenset({"assistant"})
FIRST_DAY, LAST_DAY = 1, 65_534
"""1970-01-02 to 2149-06-05: days are stored in two bytes, and 0 stands for never."""

MASK_63_BITS = (1 << 63) - 1

Interval = Literal["day", "week", "month"]
SortColumn = Literal["path", "human", "ai", "total"]


@dataclass(frozen=True)
class LogResult:
    accepted: int
    duplicates: tuple[int, ...] = ()
    """Which of the views were not logged, by position: their project has logged their event before."""


@dataclass(frozen=True)
class Counts:
    """Visitors or views. Of visitors, total is the union; of views, the sum."""

    human: int = 0
    ai: int = 0
    total: int = 0


@dataclass(frozen=True)
class PageCounts:
    path: str
    count: Counts


@dataclass(frozen=True)
class ReportPage:
    """One page of results; the totals are those of the whole range."""

    totals: Counts
    rows: Sequence[PageCounts]
    has_more: bool


@dataclass(frozen=True)
class PageQuery:
    """Which pages, and which of them first; those that are equal come by path."""

    search: str = ""
    """A part of the path, in capitals or not."""
    by: SortColumn = "total"
    descending: bool = True


DEFAULT_PAGE_QUERY = PageQuery()


@dataclass(frozen=True)
class AgentRow:
    agent: str | None
    operator: str | None
    kind: str
    visitors: int
    views: int


@dataclass(frozen=True)
class RuleRow:
    """So many of an agent's views were told to be its own by this rule."""

    agent: str | None
    operator: str | None
    kind: str
    rule: str
    views: int


@dataclass(frozen=True)
class TimeseriesPoint:
    """An interval in which there was something, named by its first day, which may lie before the range."""

    day: int
    visitors: Counts
    views: Counts


@dataclass(frozen=True)
class DayRange:
    """Days from (inclusive) to (exclusive)."""

    first: int = FIRST_DAY
    end: int = LAST_DAY + 1


ALL_DAYS = DayRange()


class StoreFull(StoreUnavailable):
    code = "store_full"
    message = (
        "The analytics store cannot write, probably because the disk is full; nothing from this request was stored."
    )


class StoreInUse(StoreUnavailable):
    code = "store_in_use"
    message = "The analytics store is open in another process, and DuckDB allows only one. Stop it, or use ClickHouse."


class StoreDamaged(StoreUnavailable):
    code = "store_damaged"
    message = "The analytics store cannot be read; restore its file from a backup."


class StoreSchemaNewer(StoreUnavailable):
    code = "store_newer"
    message = "The analytics store was written by a newer version of Copydesk; upgrade this one."


class DayOutOfRange(RequestError):
    message = "A page view must be dated between 1970-01-02 and 2149-06-05."


def shorten_event_hash(event_hash: int) -> int:
    """Of the 128 bits of an event as many as stores keep, the same in each: what is moved to another is known there."""
    return (event_hash ^ event_hash >> 64) & MASK_63_BITS


def day_from_milliseconds(milliseconds: int) -> int:
    """The UTC day of a time in milliseconds."""
    day = milliseconds // DAY
    if not FIRST_DAY <= day <= LAST_DAY:
        raise DayOutOfRange
    return day


class Store(Protocol):
    """Views go in through log, become countable by fold, and come out as exact numbers. Safe for many threads."""

    def log_views(self, views: Sequence[PageView]) -> LogResult:
        """All but duplicates, or none at all; durable on return. A view without an event is nobody's duplicate."""

    def ping(self) -> None:
        """Returns when the store answers, or raises what is wrong."""

    def backlog(self) -> int:
        """How many logged views are not folded yet; no report knows of them."""

    def fold(self) -> int:
        """Counts what was logged since the last fold, however late its days; how many views that were."""

    def count_visitors_by_page(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: PageQuery = DEFAULT_PAGE_QUERY,
    ) -> ReportPage:
        """Unique visitors by page, most first, then by path; pages without any are left out. A choice changes which
        pages come and in which order, never the totals."""

    def count_views_by_page(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReportPage:
        """The same for views."""

    def list_agents(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        """Every agent of every class, most visitors first, then views, then by name; and whether there are more."""

    def list_rules(self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 1000) -> Sequence[RuleRow]:
        """Which rules told the agents, most views first. It looks at raw views: those that were dropped have no rule
        any more, and a long range costs what it holds."""

    def load_timeseries(
        self, project_id: str, interval: Interval, days: DayRange = ALL_DAYS
    ) -> Sequence[TimeseriesPoint]:
        """Weeks begin on Monday. Only the part of an interval that lies in the range is counted."""

    def set_ai_classes(self, project_id: str, classes: Collection[str], timeout_seconds: float | None = None) -> None:
        """Changes which classes count as AI, for all that was ever folded too. A store that several processes count on
        waits for its turn no longer than so many seconds."""

    def rebuild_index(self) -> None:
        """Makes the index anew from the visits."""

    def drop_views(self, before_day: int, project_ids: Collection[str] | None = None) -> int:
        """Drops folded raw views of days before this one, of these projects or of all; every number stays. How many."""

    def forget_project(self, project_id: str) -> None:
        """Drops everything of a project."""

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        """Drops the visits of a visitor; their views stay, as nobody's."""

    def back_up(self, target: Path) -> None:
        """A consistent copy in a new file, while everything goes on."""

    def close(self) -> None: ...
