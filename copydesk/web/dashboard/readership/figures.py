"""The numbers of the analytics pages: tiles with their change, and table rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from copydesk.analytics.page_view import VisitorClass
from copydesk.analytics.stores.base import PageQuery, SortColumn
from copydesk.analytics.stores.report_rows import AgentRow, Counts, PageAgentRow, PageCounts, RuleRow
from copydesk.core.errors import InvalidRequest

SORT_COLUMNS: tuple[SortColumn, ...] = get_args(SortColumn)
MAX_SEARCH_CHARS = 200
MAX_PAGE_NUMBER = 1_000_000
MINUS = "\N{MINUS SIGN}"
MAX_BAR_PIXELS = 200


@dataclass(frozen=True)
class PeriodTotals:
    visitors: Counts
    views: int


@dataclass(frozen=True)
class Tile:
    name: str
    label: str
    value: str
    change: str
    before: str
    """The value in the previous period; empty if there is none or if it was zero. If only a part of the range is
    compared, also the value of that part."""


def build_tiles(
    visitors: Counts, views: int, current: PeriodTotals | None, previous: PeriodTotals | None
) -> list[Tile]:
    """Builds the tiles of the range. Their change is that from `previous` to `current`, which is the compared part of
    the range; None means all of it."""
    now = current or PeriodTotals(visitors, views)
    before, views_before = (previous.visitors, previous.views) if previous else (None, None)
    return [
        _build_count_tile("visitors", "Visitors", visitors.total, now.visitors.total, before.total if before else None),
        _build_count_tile("human", "Human", visitors.human, now.visitors.human, before.human if before else None),
        _build_count_tile("ai", "AI", visitors.ai, now.visitors.ai, before.ai if before else None),
        _build_share_tile(visitors, now.visitors, before),
        _build_count_tile("views", "Views", views, now.views, views_before),
    ]


def _build_count_tile(name: str, label: str, value: int, now: int, before: int | None) -> Tile:
    compared = f"{before:,}" if before else ""
    if compared and now != value:
        compared = f"{compared} to {now:,}"
    return Tile(name, label, f"{value:,}", format_change(now, before), compared)


def format_change(now: int, before: int | None) -> str:
    """Formats the change from the previous period, as a percentage if the previous value is not zero."""
    if before is None:
        return "no figure"
    if now == before:
        return "no change"
    if before == 0:
        return "new"
    share = (now - before) / before
    if abs(share) < 0.0005:
        return f"{'up' if share > 0 else 'down'} by less than 0.1%"
    return _format_signed(share, f"{abs(share):,.1%}")


def _build_share_tile(visitors: Counts, current: Counts, previous: Counts | None) -> Tile:
    share, now = _ai_share(visitors), _ai_share(current)
    before = None if previous is None else _ai_share(previous)
    value = "–" if share is None else f"{share:.1%}"
    if now is None or before is None:
        change_text = "new" if previous is not None and now is not None else "no figure"
        return Tile("share", "Share of AI", value, change_text, "")
    points = round(now * 100, 1) - round(before * 100, 1)
    change_text = _format_signed(points, f"{abs(points):.1f} points") if abs(points) >= 0.05 else "no change"
    compared = f"{before:.1%}" if f"{now:.1%}" == value else f"{before:.1%} to {now:.1%}"
    return Tile("share", "Share of AI", value, change_text, compared)


def _ai_share(visitors: Counts) -> float | None:
    return visitors.ai / visitors.total if visitors.total else None


def _format_signed(difference: float, magnitude: str) -> str:
    return f"{'+' if difference > 0 else MINUS}{magnitude}"


@dataclass(frozen=True)
class PageRow:
    path: str
    count: Counts
    human_bar: float
    ai_bar: float


def build_page_rows(rows: Sequence[PageCounts]) -> list[PageRow]:
    """Returns rows with bars whose lengths are relative to the largest value in the table."""
    largest = max((max(row.count.human, row.count.ai) for row in rows), default=0) or 1
    return [
        PageRow(row.path, row.count, _bar_length(row.count.human, largest), _bar_length(row.count.ai, largest))
        for row in rows
    ]


def _bar_length(value: int, largest: int) -> float:
    """Returns the length of a bar in pixels. A value above zero always gets a visible bar."""
    return max(1.5, round(MAX_BAR_PIXELS * value / largest, 1)) if value else 0


@dataclass(frozen=True)
class AgentTableRow:
    name: str
    operator: str
    kind: str
    counts_as: str
    visitors: int | None
    """None if there are too many views to count them."""
    views: int
    rules: Sequence[str]


def build_agent_rows(
    rows: Sequence[AgentRow | PageAgentRow], rule_rows: Sequence[RuleRow], ai_classes: Collection[str]
) -> list[AgentTableRow]:
    rules: dict[tuple[str | None, str | None, str], list[str]] = {}
    for rule_row in rule_rows:
        rules.setdefault((rule_row.agent, rule_row.operator, rule_row.kind), []).append(rule_row.rule)
    return [
        AgentTableRow(
            name=row.agent or ("Browsers" if row.kind == VisitorClass.HUMAN else "Unnamed"),
            operator=row.operator or "",
            kind=row.kind,
            counts_as="Human" if row.kind == VisitorClass.HUMAN else "AI" if row.kind in ai_classes else "Not counted",
            visitors=row.visitors,
            views=row.views,
            rules=rules.get((row.agent, row.operator, row.kind), ()),
        )
        for row in rows
    ]


def parse_listing(query: Mapping[str, str]) -> tuple[PageQuery, int]:
    """Parses the query parameters search, sort, order and page of the table of pages."""
    search = query.get("search", "").strip()
    sort = query.get("sort", "total")
    order = query.get("order", "")
    if len(search) > MAX_SEARCH_CHARS:
        raise InvalidRequest(f"A search must have at most {MAX_SEARCH_CHARS} characters.")
    if sort not in SORT_COLUMNS or order not in ("", "up", "down"):
        raise InvalidRequest(f"Sort by {', '.join(SORT_COLUMNS)}, with the order up or down.")
    descending = order == "down" if order else sort != "path"
    return PageQuery(search, sort, descending), parse_page_number(query)


def parse_page_number(query: Mapping[str, str]) -> int:
    text = query.get("page", "1")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 0
    if not 1 <= number <= MAX_PAGE_NUMBER:
        raise InvalidRequest(f"A page must be a whole number between 1 and {MAX_PAGE_NUMBER:,}.")
    return number
