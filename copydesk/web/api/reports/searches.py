"""The searches API: /v1/analytics/{projectId}/searches"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from copydesk.analytics.interactions.searches import SearchReport
from copydesk.core.clock import format_iso
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import TABLE_RESPONSES, CurrentReportRequest, EntryLimit, TimeRangeParams
from copydesk.web.api.schemas import ApiModel

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


class SearchRowResponse(ApiModel):
    search_query: str
    hits: int
    """The number of searches. Differences in case and spacing do not count."""
    ctr: float
    """The share of these searches after which the reader opened a result, in percent."""
    top_clicked_page: str | None
    """The path of the result that was opened most often."""
    last_searched_at: str


class SearchesResponse(ApiModel):
    searches: list[SearchRowResponse]
    """Most frequent first."""
    total_searches: int
    """The number of searches in the range, over all queries."""
    next_cursor: str | None

    @classmethod
    def from_report(cls, report: SearchReport) -> "SearchesResponse":
        rows = [
            SearchRowResponse(
                search_query=row.query,
                hits=row.hits,
                ctr=row.click_rate,
                top_clicked_page=row.top_clicked_page,
                last_searched_at=format_iso(row.last_at),
            )
            for row in report.rows
        ]
        return cls(searches=rows, total_searches=report.total, next_cursor=report.next_cursor)


@router.get("/searches", response_model=SearchesResponse, responses=TABLE_RESPONSES, operation_id="listSearches")
async def list_searches(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    times: TimeRangeParams,
    limit: EntryLimit = 50,
    cursor: Annotated[str | None, Query(description="`nextCursor` of the previous page.")] = None,
) -> Response:
    """Returns what readers searched for, most frequent first."""
    result = await report_request.run_query(
        lambda: report_request.desk.searches.report(project_id, times, limit, cursor)
    )
    report = SearchesResponse.from_report(result)
    return report_request.render_list("searches", report, report.searches, {"cursor": report.next_cursor})
