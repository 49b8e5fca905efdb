"""The analytics API: reports and feedback, /v1/analytics/{projectId}/…"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BeforeValidator, Field, WithJsonSchema

from copydesk.analytics.date_ranges import clamp_day_range, parse_day
from copydesk.analytics.stores.base import DayRange, Interval
from copydesk.core.clock import SECOND
from copydesk.core.ids import id_pattern
from copydesk.core.rate_limits.in_memory import SharedRateLimiter
from copydesk.core.rate_limits.limits import RateLimit
from copydesk.desk import Desk
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.report_response import ReportRequest
from copydesk.web.api.report_schemas import (
    AgentsResponse,
    FeedbackByPageResponse,
    FeedbackEntryResponse,
    FeedbackResponse,
    PageFeedbackResponse,
    TimeseriesResponse,
    ViewsResponse,
    VisitorsResponse,
)

MAX_ROWS, MAX_FEEDBACK_ENTRIES = 250, 100
MAX_OFFSET = 1 << 40
"""Larger than any number of rows, and within the integer range of the stores."""
DATE_SCHEMA = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}
REPORT_RESPONSES: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the response with the ETag in `If-None-Match`."},
    **error_responses(429),
}
TABLE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON, or CSV if `Accept` prefers it.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    },
    **REPORT_RESPONSES,
}

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


def create_export_limiter(desk: Desk) -> SharedRateLimiter:
    return SharedRateLimiter(
        RateLimit("exports", desk.settings.exports_per_minute, 60 * SECOND), desk.database, desk.rate_limit_executor
    )


def _parse_digits(value: Any) -> int:
    """Returns the number, or -1 if the text is not only digits. 5.0, 1_0 and +5 are probably mistakes."""
    return int(value) if re.fullmatch("[0-9]{1,4000}", str(value)) else -1


def _build_limit_validator(maximum: int) -> Callable[[Any], int]:
    def validate(value: Any) -> int:
        number = _parse_digits(value)
        if not 1 <= number <= maximum:
            raise ValueError(f"must be a whole number between 1 and {maximum}")
        return number

    return validate


def _validate_offset(value: Any) -> int:
    number = _parse_digits(value)
    if number < 0:
        raise ValueError("must be a whole number, 0 or more")
    return min(number, MAX_OFFSET)


def _parse_day_param(value: Any) -> Any:
    return parse_day(value) if isinstance(value, str) else value


async def create_report_request(
    request: Request,
    desk: OpenDesk,
    project: CurrentProject,
    if_none_match: Annotated[str | None, Header(description="The `ETag` of the response that the client has.")] = None,
) -> ReportRequest:
    return ReportRequest(request, desk, project)


async def read_date_params(
    date_from: Annotated[
        int | None,
        BeforeValidator(_parse_day_param),
        WithJsonSchema(DATE_SCHEMA),
        Query(alias="dateFrom", description="The first day, or a time on it. Days are in UTC."),
    ] = None,
    date_to: Annotated[
        int | None,
        BeforeValidator(_parse_day_param),
        WithJsonSchema(DATE_SCHEMA),
        Query(alias="dateTo", description="The day after the last, or a time on it. Days are in UTC."),
    ] = None,
) -> DayRange:
    return clamp_day_range(date_from, date_to)


CurrentReportRequest = Annotated[ReportRequest, Depends(create_report_request)]
DateRangeParams = Annotated[DayRange, Depends(read_date_params)]
RowLimit = Annotated[
    int,
    Field(ge=1, le=MAX_ROWS),
    BeforeValidator(_build_limit_validator(MAX_ROWS)),
    Query(description="The maximum number of rows."),
]
FeedbackLimit = Annotated[
    int,
    Field(ge=1, le=MAX_FEEDBACK_ENTRIES),
    BeforeValidator(_build_limit_validator(MAX_FEEDBACK_ENTRIES)),
    Query(description="The maximum number of rows."),
]
Offset = Annotated[
    int, Field(ge=0), BeforeValidator(_validate_offset), Query(description="The number of rows to skip.")
]


@router.get("/visitors", response_model=VisitorsResponse, responses=TABLE_RESPONSES, operation_id="exportVisitors")
async def visitors(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns exact unique visitors per page, highest first: human, AI, and total, which counts each visitor once."""
    page = await report_request.query_store(
        lambda store: store.count_visitors_by_page(project_id, date_range, limit, offset)
    )
    return report_request.render_table(
        "visitors", VisitorsResponse.from_page(page), offset + limit if page.has_more else None
    )


@router.get("/views", response_model=ViewsResponse, responses=TABLE_RESPONSES, operation_id="exportViews")
async def views(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns views per page, highest first."""
    page = await report_request.query_store(
        lambda store: store.count_views_by_page(project_id, date_range, limit, offset)
    )
    return report_request.render_table(
        "views", ViewsResponse.from_page(page), offset + limit if page.has_more else None
    )


@router.get("/agents", response_model=AgentsResponse, responses=TABLE_RESPONSES, operation_id="exportAgents")
async def agents(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns visitors and views by agent, for every class, so that you can verify the split into human and AI."""
    rows, has_more = await report_request.query_store(
        lambda store: store.list_agents(project_id, date_range, limit, offset)
    )
    return report_request.render_table(
        "agents", AgentsResponse.from_rows(rows, has_more), offset + limit if has_more else None
    )


@router.get(
    "/timeseries", response_model=TimeseriesResponse, responses=TABLE_RESPONSES, operation_id="exportTimeseries"
)
async def timeseries(
    project_id: ProjectId, report_request: CurrentReportRequest, date_range: DateRangeParams, interval: Interval = "day"
) -> Response:
    """Returns unique visitors and views of the whole site by day, week (starting on Monday) or month."""
    points = await report_request.query_store(lambda store: store.load_timeseries(project_id, interval, date_range))
    return report_request.render_table("timeseries", TimeseriesResponse.from_points(interval, points))


@router.get("/feedback", response_model=FeedbackResponse, responses=REPORT_RESPONSES, operation_id="listFeedback")
async def feedback(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: FeedbackLimit = 50,
    cursor: Annotated[
        str | None, Query(description="`nextCursor` of the previous page.", pattern=id_pattern("fb"))
    ] = None,
) -> Response:
    """Returns feedback from readers, newest first."""
    entries, next_cursor = await report_request.run_query(
        lambda: report_request.desk.feedback.list_entries(project_id, date_range, limit, cursor)
    )
    feedback = [FeedbackEntryResponse.from_entry(entry) for entry in entries]
    return report_request.render_json(
        FeedbackResponse(feedback=feedback, next_cursor=next_cursor, has_more=next_cursor is not None)
    )


@router.get(
    "/feedback/by-page",
    response_model=FeedbackByPageResponse,
    responses=REPORT_RESPONSES,
    operation_id="feedbackByPage",
)
async def feedback_by_page(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: FeedbackLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns feedback per page, highest first."""
    pages, has_more = await report_request.run_query(
        lambda: report_request.desk.feedback.count_by_page(project_id, date_range, limit, offset)
    )
    return report_request.render_json(
        FeedbackByPageResponse(
            pages=[PageFeedbackResponse.from_page_feedback(page) for page in pages], has_more=has_more
        )
    )
