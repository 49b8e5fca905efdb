"""The API of one page: /v1/analytics/{projectId}/pages/{path}"""

from fastapi import APIRouter, Depends, Response

from copydesk.analytics.stores.report_rows import PageDetail
from copydesk.core.errors import NotFound
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import REPORT_RESPONSES, CurrentReportRequest, DateRangeParams
from copydesk.web.api.reports.referrers import ReferrerResponse
from copydesk.web.api.reports.schemas import AgentResponse, AgentsResponse, TimeseriesPointResponse, TimeseriesResponse
from copydesk.web.api.reports.sections import SectionTotalsResponse
from copydesk.web.api.schemas import ApiModel

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


class PageNotFound(NotFound):
    code = "page_not_found"
    message = "No view of this page was counted."


class PageDetailResponse(ApiModel):
    path: str
    totals: SectionTotalsResponse
    """Unique visitors, and views by people and AI."""
    timeseries: list[TimeseriesPointResponse]
    """Days with at least one view, in order."""
    agents: list[AgentResponse]
    """Agents of every class, most visitors first, at most 50; from raw views."""
    referrers: list[ReferrerResponse]
    """Where people came from, most visitors first, at most 50; from raw views."""

    @classmethod
    def from_detail(cls, path: str, detail: PageDetail) -> "PageDetailResponse":
        return cls(
            path=path,
            totals=SectionTotalsResponse.model_validate({**vars(detail.totals), "views": detail.views}),
            timeseries=TimeseriesResponse.from_points("day", detail.timeseries).timeseries,
            agents=AgentsResponse.from_rows(detail.agents, has_more=False).agents,
            referrers=ReferrerResponse.list_from_rows(detail.referrers),
        )


@router.get(
    "/pages/{path:path}",
    response_model=PageDetailResponse,
    responses={**REPORT_RESPONSES, 404: {"description": "The project is unknown, or no view of the page was counted."}},
    operation_id="exportPage",
)
async def page(
    project_id: ProjectId, path: str, report_request: CurrentReportRequest, date_range: DateRangeParams
) -> Response:
    """Returns the numbers of one page. The path follows `/pages`, percent-encoded; `/pages/` is the home page."""
    page_path = "/" + path.lstrip("/")
    detail = await report_request.query_store(lambda store: store.load_page(project_id, page_path, date_range))
    if detail is None:
        raise PageNotFound
    return report_request.render_json(PageDetailResponse.from_detail(page_path, detail))
