"""The tool that ranks pages, for all readers, for people or for AI."""

from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field

from copydesk.mcp.tools.day_range import DayRange, DayRangeArguments
from copydesk.mcp.tools.tool import ToolCall, define_tool
from copydesk_client.shapes import Counts

ROWS_PER_REQUEST, MAX_REQUESTS = 250, 8


class TopPagesArguments(DayRangeArguments):
    by: Literal["visitors", "views"] = "visitors"
    """Rank by unique visitors or by views."""
    audience: Literal["all", "human", "ai"] = "all"
    """Rank by all readers, by people, or by AI agents that read for people."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """The number of pages."""


class RankedPage(TypedDict):
    rank: int
    path: str
    human: int
    ai: int
    total: int


class TopPages(TypedDict):
    range: DayRange
    totals: Counts
    pages: list[RankedPage]
    exact: bool
    """False if pages that were not examined could belong in the list."""


@define_tool("Top pages", TopPagesArguments, TopPages)
async def get_top_pages(call: ToolCall, args: TopPagesArguments) -> Any:
    """Returns the most read pages, for all readers, for people or for AI. If exact is false, the site has so many pages
    that another one could belong in the list."""
    bounds, days = args.resolve()
    column = "total" if args.audience == "all" else args.audience
    path = f"{call.api.analytics_path}/{args.by}"
    rows: list[dict[str, Any]] = []
    while True:
        limit = args.limit if column == "total" else ROWS_PER_REQUEST
        page = await call.api.get(path, **bounds, limit=limit, offset=len(rows))
        rows += page[args.by]
        top = sorted((row for row in rows if row[column]), key=lambda row: (-row[column], row["path"]))[: args.limit]
        is_exact = not page["hasMore"] or column == "total" or _is_settled(top, args.limit, column, rows[-1])
        if is_exact or len(rows) >= ROWS_PER_REQUEST * MAX_REQUESTS:
            break
    ranked = [{"rank": rank, **row} for rank, row in enumerate(top, 1)]
    return {"range": days, "totals": page["totals"], "pages": ranked, "exact": is_exact}


def _is_settled(top: list[dict[str, Any]], limit: int, column: str, last_row: dict[str, Any]) -> bool:
    """Returns whether no later row can enter the list.

    Rows are sorted by their total, which is at least the count of people and the count of AI.
    """
    return len(top) == limit and bool(top[-1][column] > last_row["total"])
