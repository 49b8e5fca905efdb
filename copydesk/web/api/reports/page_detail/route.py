"""The API of one page: /v1/analytics/{projectId}/pages/{path}"""

from fastapi import APIRouter, Depends, Response

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.stores.base import DEFAULT_RAW_VIEW_LIMITS
from copydesk.core.errors import NotFound
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.page_detail.activity import load_page_activity
from copydesk.web.api.reports.page_detail.schemas import PageDetailResponse
from copydesk.web.api.reports.parameters import REPORT_RESPONSES, CurrentReportRequest, DateRangeParams

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])

RAW_VIEW_LIMITS = DEFAULT_RAW_VIEW_LIMITS


class PageNotFound(NotFound):
    code = "page_not_found"
    message = "No view of this page was counted."


@router.get(
    "/pages/{path:path}",
    response_model=PageDetailResponse,
    responses={**REPORT_RESPONSES, 404: {"description": "The project is unknown, or no view of the page was counted."}},
    operation_id="exportPage",
)
async def page(
    project_id: ProjectId, path: str, report_request: CurrentReportRequest, date_range: DateRangeParams
) -> Response:
    """Returns one page: its numbers, feedback, searches that led to it, its last commit and the jobs about it.

    The path follows `/pages`, percent-encoded; `/pages/` is the home page.
    """
    page_path = "/" + path.lstrip("/")
    detail = await report_request.query_store(
        lambda store: store.load_page(project_id, page_path, date_range, RAW_VIEW_LIMITS)
    )
    if detail is None:
        raise PageNotFound
    activity = await load_page_activity(
        report_request.desk, report_request.project, page_path, TimeRange.from_days(date_range)
    )
    return report_request.render_json(PageDetailResponse.build(page_path, detail, activity))
