"""The history API: /v1/analytics/{projectId}/history, what other tools have counted"""

from fastapi import APIRouter, Depends, Response

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.history import HistorySource
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import (
    TABLE_RESPONSES,
    CurrentReportRequest,
    DateRangeParams,
    Offset,
    RowLimit,
)
from copydesk.web.api.schemas import ApiModel

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


class HistoryDayResponse(ApiModel):
    date: str
    source: HistorySource
    """The tool that counted."""
    visitors: int
    """The visitors of the day, as the tool counted them."""
    pageviews: int


class HistoryResponse(ApiModel):
    history: list[HistoryDayResponse]
    """By date, then by source. These numbers are in no other report."""
    has_more: bool


class HistoryPageResponse(ApiModel):
    path: str
    source: HistorySource
    visitors: int
    """The sum of the daily visitors: a person who came on several days counts several times."""
    pageviews: int


class HistoryPagesResponse(ApiModel):
    pages: list[HistoryPageResponse]
    """Most page views first, then by path."""
    has_more: bool


@router.get("/history", response_model=HistoryResponse, responses=TABLE_RESPONSES, operation_id="exportHistory")
async def history(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns the daily totals that other tools have counted and that were imported. They are in no other report."""
    days, has_more = await report_request.run_query(
        lambda: report_request.desk.history.list_days(project_id, date_range, limit, offset)
    )
    rows = [
        HistoryDayResponse(
            date=format_day(row.day), source=HistorySource(row.source), visitors=row.visitors, pageviews=row.pageviews
        )
        for row in days
    ]
    response = HistoryResponse(history=rows, has_more=has_more)
    return report_request.render_rows("history", response, rows, offset + limit if has_more else None)


@router.get(
    "/history/pages",
    response_model=HistoryPagesResponse,
    responses=TABLE_RESPONSES,
    operation_id="exportHistoryPages",
)
async def history_pages(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns what other tools have counted for each page, most page views first, if the imported files say so."""
    pages, has_more = await report_request.run_query(
        lambda: report_request.desk.history.list_pages(project_id, date_range, limit, offset)
    )
    rows = [
        HistoryPageResponse(
            path=row.path, source=HistorySource(row.source), visitors=row.visitors, pageviews=row.pageviews
        )
        for row in pages
    ]
    response = HistoryPagesResponse(pages=rows, has_more=has_more)
    return report_request.render_rows("history-pages", response, rows, offset + limit if has_more else None)
