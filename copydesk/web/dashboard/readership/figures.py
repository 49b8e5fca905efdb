"""What the readership pages say in numbers: tiles with their change, and the rows of their tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from copydesk.analytics.page_view import Class
from copydesk.analytics.stores.base import AgentRow, Choice, Column, Row, RuleRow, Split
from copydesk.core.errors import InvalidRequest

COLUMNS: tuple[Column, ...] = get_args(Column)
LONGEST_SEARCH = 200
LAST_PAGE = 1_000_000
MINUS = "\N{MINUS SIGN}"
BAR = 200
"""How long the longest bar is."""


@dataclass(frozen=True)
class Tile:
    name: str
    label: str
    value: str
    change: str
    before: str
    """What it was in the period before, where that is worth saying."""


def tiles(visitors: Split, views: int, before: tuple[Split, int] | None) -> list[Tile]:
    was, viewed = before or (None, None)
    return [
        _count("visitors", "Visitors", visitors.total, was.total if was else None),
        _count("human", "Human", visitors.human, was.human if was else None),
        _count("ai", "AI", visitors.ai, was.ai if was else None),
        _share(visitors, was),
        _count("views", "Views", views, viewed),
    ]


def _count(name: str, label: str, now: int, before: int | None) -> Tile:
    return Tile(name, label, f"{now:,}", change(now, before), f"{before:,}" if before else "")


def change(now: int, before: int | None) -> str:
    """Against the period before, as a share of it where there is one."""
    if before is None:
        return "no figure"
    if now == before:
        return "no change"
    if before == 0:
        return "new"
    share = (now - before) / before
    if abs(share) < 0.0005:
        return f"{'up' if share > 0 else 'down'} by less than 0.1%"
    return _signed(share, f"{abs(share):,.1%}")


def _share(visitors: Split, was: Split | None) -> Tile:
    now, before = _ai_share(visitors), None if was is None else _ai_share(was)
    value = "–" if now is None else f"{now:.1%}"
    if now is None or before is None:
        changed = "new" if was is not None and now is not None else "no figure"
        return Tile("share", "Share of AI", value, changed, "")
    points = round(now * 100, 1) - round(before * 100, 1)
    changed = _signed(points, f"{abs(points):.1f} points") if abs(points) >= 0.05 else "no change"
    return Tile("share", "Share of AI", value, changed, f"{before:.1%}")


def _ai_share(visitors: Split) -> float | None:
    return visitors.ai / visitors.total if visitors.total else None


def _signed(difference: float, size: str) -> str:
    return f"{'+' if difference > 0 else MINUS}{size}"


@dataclass(frozen=True)
class PageRow:
    path: str
    count: Split
    human_bar: float
    ai_bar: float


def page_rows(rows: Sequence[Row]) -> list[PageRow]:
    """Bars are as long as the figures are, against the largest of those shown."""
    most = max((max(row.count.human, row.count.ai) for row in rows), default=0) or 1
    return [PageRow(row.path, row.count, _bar(row.count.human, most), _bar(row.count.ai, most)) for row in rows]


def _bar(value: int, most: int) -> float:
    """Even one visitor is seen."""
    return max(1.5, round(BAR * value / most, 1)) if value else 0


@dataclass(frozen=True)
class AgentLine:
    name: str
    operator: str
    kind: str
    counts_as: str
    visitors: int
    views: int
    rules: Sequence[str]


def agent_lines(rows: Sequence[AgentRow], told: Sequence[RuleRow], ai: Collection[str]) -> list[AgentLine]:
    rules: dict[tuple[str | None, str | None, str], list[str]] = {}
    for each in told:
        rules.setdefault((each.agent, each.operator, each.kind), []).append(each.rule)
    return [
        AgentLine(
            name=row.agent or ("Browsers" if row.kind == Class.HUMAN else "Without a name"),
            operator=row.operator or "",
            kind=row.kind,
            counts_as="Human" if row.kind == Class.HUMAN else "AI" if row.kind in ai else "Not counted",
            visitors=row.visitors,
            views=row.views,
            rules=rules.get((row.agent, row.operator, row.kind), ()),
        )
        for row in rows
    ]


def listing(query: Mapping[str, str]) -> tuple[Choice, int]:
    """Which pages a table shows, in which order, and which page of it: search, sort, order and page of an address."""
    search, sort, order = query.get("search", "").strip(), query.get("sort", "total"), query.get("order", "")
    if len(search) > LONGEST_SEARCH:
        raise InvalidRequest(f"A search has at most {LONGEST_SEARCH} characters.")
    if sort not in COLUMNS or order not in ("", "up", "down"):
        raise InvalidRequest(f"The table is sorted by {', '.join(COLUMNS)}, up or down.")
    descending = order == "down" if order else sort != "path"
    return Choice(search, sort, descending), number_of_page(query)


def number_of_page(query: Mapping[str, str]) -> int:
    text = query.get("page", "1")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 0
    if not 1 <= number <= LAST_PAGE:
        raise InvalidRequest(f"A page is a whole number between 1 and {LAST_PAGE:,}.")
    return number
