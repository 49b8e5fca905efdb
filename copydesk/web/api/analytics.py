"""The analytics API: what is counted and what readers say, /v1/analytics/{projectId}/…"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BeforeValidator, Field, WithJsonSchema

from copydesk.analytics.date_ranges import day, days
from copydesk.analytics.stores.base import Interval, Range
from copydesk.core.clock import SECOND
from copydesk.core.ids import id_pattern
from copydesk.core.rate_limits.in_memory import SharedRate
from copydesk.core.rate_limits.limits import Limit
from copydesk.desk import Desk
from copydesk.web.api.jobs import OpenDesk, Opened, ProjectId, bearer, errors
from copydesk.web.api.report_response import Asking
from copydesk.web.api.report_schemas import (
    AgentsView,
    FeedbackByPageView,
    FeedbackView,
    PageRemarksView,
    RemarkView,
    TimeseriesView,
    ViewsView,
    VisitorsView,
)

MOST_ROWS, MOST_REMARKS = 250, 100
FARTHEST = 1 << 40
"""An offset beyond every row there can be, and within what stores count in."""
DATE = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}
ANSWERS: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the answer that `If-None-Match` names."},
    **errors(429),
}
TABLES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON, or CSV where `Accept` prefers it.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    },
    **ANSWERS,
}

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


def exports_rate(desk: Desk) -> SharedRate:
    return SharedRate(Limit("exports", desk.settings.exports_per_minute, 60 * SECOND), desk.database, desk.limit_teller)


def _number(given: Any) -> int:
    """Digits alone: 5.0, 1_0 and +5 are rather mistakes than numbers. -1 is out of all bounds."""
    return int(given) if re.fullmatch("[0-9]{1,4000}", str(given)) else -1


def _up_to(most: int) -> Callable[[Any], int]:
    def check(given: Any) -> int:
        number = _number(given)
        if not 1 <= number <= most:
            raise ValueError(f"must be a whole number between 1 and {most}")
        return number

    return check


def _from_zero(given: Any) -> int:
    number = _number(given)
    if number < 0:
        raise ValueError("must be a whole number, 0 or more")
    return min(number, FARTHEST)


def _day(given: Any) -> Any:
    return day(given) if isinstance(given, str) else given


async def asking(
    request: Request,
    desk: OpenDesk,
    project: Opened,
    if_none_match: Annotated[str | None, Header(description="`ETag` of the answer that the client has.")] = None,
) -> Asking:
    return Asking(request, desk, project)


async def within(
    date_from: Annotated[
        int | None,
        BeforeValidator(_day),
        WithJsonSchema(DATE),
        Query(alias="dateFrom", description="The first day, or a moment in it; days are those of UTC."),
    ] = None,
    date_to: Annotated[
        int | None,
        BeforeValidator(_day),
        WithJsonSchema(DATE),
        Query(alias="dateTo", description="The day after the last, or a moment in it."),
    ] = None,
) -> Range:
    return days(date_from, date_to)


Asked = Annotated[Asking, Depends(asking)]
Within = Annotated[Range, Depends(within)]
Rows = Annotated[
    int, Field(ge=1, le=MOST_ROWS), BeforeValidator(_up_to(MOST_ROWS)), Query(description="How many rows at most.")
]
Remarks = Annotated[
    int, Field(ge=1, le=MOST_REMARKS), BeforeValidator(_up_to(MOST_REMARKS)), Query(description="How many at most.")
]
Offset = Annotated[
    int, Field(ge=0), BeforeValidator(_from_zero), Query(description="How many rows to leave out first.")
]


@router.get("/visitors", response_model=VisitorsView, responses=TABLES, operation_id="exportVisitors")
async def visitors(project_id: ProjectId, asked: Asked, span: Within, limit: Rows = 50, offset: Offset = 0) -> Response:
    """Unique visitors by page, exact, most first: human, AI, and both together without counting anybody twice."""
    page = await asked.count(lambda store: store.visitors(project_id, span, limit, offset))
    return asked.table("visitors", VisitorsView.of(page), offset + limit if page.has_more else None)


@router.get("/views", response_model=ViewsView, responses=TABLES, operation_id="exportViews")
async def views(project_id: ProjectId, asked: Asked, span: Within, limit: Rows = 50, offset: Offset = 0) -> Response:
    """Views by page, most first."""
    page = await asked.count(lambda store: store.views(project_id, span, limit, offset))
    return asked.table("views", ViewsView.of(page), offset + limit if page.has_more else None)


@router.get("/agents", response_model=AgentsView, responses=TABLES, operation_id="exportAgents")
async def agents(project_id: ProjectId, asked: Asked, span: Within, limit: Rows = 50, offset: Offset = 0) -> Response:
    """Every agent that came, of every class, so that the split into human and AI can be audited."""
    rows, has_more = await asked.count(lambda store: store.agents(project_id, span, limit, offset))
    return asked.table("agents", AgentsView.of(rows, has_more), offset + limit if has_more else None)


@router.get("/timeseries", response_model=TimeseriesView, responses=TABLES, operation_id="exportTimeseries")
async def timeseries(project_id: ProjectId, asked: Asked, span: Within, interval: Interval = "day") -> Response:
    """Unique visitors and views of the whole site by day, week (from Monday) or month."""
    moments = await asked.count(lambda store: store.timeseries(project_id, interval, span))
    return asked.table("timeseries", TimeseriesView.of(interval, moments))


@router.get("/feedback", response_model=FeedbackView, responses=ANSWERS, operation_id="listFeedback")
async def feedback(
    project_id: ProjectId,
    asked: Asked,
    span: Within,
    limit: Remarks = 50,
    cursor: Annotated[
        str | None, Query(description="`nextCursor` of the page before.", pattern=id_pattern("fb"))
    ] = None,
) -> Response:
    """What readers said, newest first."""
    found, following = await asked.read(lambda: asked.desk.feedback.page(project_id, span, limit, cursor))
    remarks = [RemarkView.of(remark) for remark in found]
    return asked.json(FeedbackView(feedback=remarks, next_cursor=following, has_more=following is not None))


@router.get("/feedback/by-page", response_model=FeedbackByPageView, responses=ANSWERS, operation_id="feedbackByPage")
async def feedback_by_page(
    project_id: ProjectId, asked: Asked, span: Within, limit: Remarks = 50, offset: Offset = 0
) -> Response:
    """What readers said, by page, most first."""
    pages, has_more = await asked.read(lambda: asked.desk.feedback.by_page(project_id, span, limit, offset))
    return asked.json(FeedbackByPageView(pages=[PageRemarksView.of(page) for page in pages], has_more=has_more))
