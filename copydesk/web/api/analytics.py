"""The analytics API: reports of counts, /v1/analytics/{projectId}/…"""

from collections.abc import Sequence

from fastapi import APIRouter, Depends, Response

from copydesk.analytics.stores.base import DayRange, Store
from copydesk.analytics.stores.errors import HoursUnknown
from copydesk.analytics.stores.report_rows import HourPoint
from copydesk.core.clock import DAY, SECOND
from copydesk.core.errors import InvalidRequest
from copydesk.core.rate_limits.in_memory import SharedRateLimiter
from copydesk.core.rate_limits.limits import RateLimit
from copydesk.desk import Desk
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import (
    TABLE_RESPONSES,
    CurrentReportRequest,
    DateRangeParams,
    Offset,
    RowLimit,
)
from copydesk.web.api.reports.schemas import (
    AgentsResponse,
    TimeseriesInterval,
    TimeseriesResponse,
    ViewsResponse,
    VisitorsResponse,
)

MAX_DAYS_BY_HOUR = 31

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


def create_export_limiter(desk: Desk) -> SharedRateLimiter:
    limit = RateLimit("exports", desk.settings.exports_per_minute, 60 * SECOND, "COPYDESK_EXPORTS_PER_MINUTE")
    return SharedRateLimiter(limit, desk.database, desk.rate_limit_executor)


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
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    interval: TimeseriesInterval = "day",
) -> Response:
    """Returns unique visitors and views of the whole site by hour, day, week (starting on Monday) or month.

    Hours are counted from raw views, so the range must have at most 31 days whose raw views are stored.
    """
    if interval == "hour":
        if date_range.end - date_range.first > MAX_DAYS_BY_HOUR:
            raise InvalidRequest(f"interval=hour needs dateFrom and dateTo, at most {MAX_DAYS_BY_HOUR} days apart.")
        hours = await report_request.query_store(lambda store: _load_hours(store, project_id, date_range))
        return report_request.render_table("timeseries", TimeseriesResponse.from_hours(hours))
    points = await report_request.query_store(lambda store: store.load_timeseries(project_id, interval, date_range))
    return report_request.render_table("timeseries", TimeseriesResponse.from_points(interval, points))


def _load_hours(store: Store, project_id: str, days: DayRange) -> Sequence[HourPoint]:
    """Returns the hours of these days. Raises HoursUnknown if raw views of one of them were deleted."""
    if days.first >= days.end:
        return ()
    report = store.load_hours(project_id, days.first * DAY, days.end * DAY)
    counted = sum(point.views.total for point in store.load_timeseries(project_id, "day", days))
    if report.views.total != counted:
        raise HoursUnknown
    return report.hours
