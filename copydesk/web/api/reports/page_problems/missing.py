"""The missing pages API: /v1/analytics/{projectId}/missing"""

from fastapi import APIRouter, Depends, Response

from copydesk.analytics.stores.report_rows import MissingReport
from copydesk.core.clock import format_iso
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


class MissingReferrerResponse(ApiModel):
    referrer: str
    """The host of another site, or the path of a page of the same site."""
    requests: int


class MissingPageResponse(ApiModel):
    path: str
    human: int
    ai: int
    total: int
    """Unique visitors who requested the path."""
    requests: int
    """How often people and AI requested the path."""
    last_seen_at: str
    """The time of the last request in the range."""
    referrers: list[MissingReferrerResponse]
    """Where the requests came from, most frequent first, at most ten."""


class OtherMissingPagesResponse(ApiModel):
    human: int
    ai: int
    total: int
    requests: int


class MissingResponse(ApiModel):
    missing: list[MissingPageResponse]
    """Highest total first, then by path."""
    has_more: bool
    other: OtherMissingPagesResponse | None
    """All paths beyond the limit of missing paths, counted together; null if there are none in the range."""

    @classmethod
    def from_report(cls, report: MissingReport) -> "MissingResponse":
        rows = [
            MissingPageResponse(
                path=row.path,
                human=row.count.human,
                ai=row.count.ai,
                total=row.count.total,
                requests=row.views,
                last_seen_at=format_iso(row.last_at),
                referrers=[
                    MissingReferrerResponse(referrer=each.referrer, requests=each.views) for each in row.referrers
                ],
            )
            for row in report.rows
        ]
        other = report.other
        other_response = OtherMissingPagesResponse(
            human=other.human, ai=other.ai, total=other.total, requests=report.other_views
        )
        return cls(missing=rows, has_more=report.has_more, other=other_response if report.other_views else None)


@router.get("/missing", response_model=MissingResponse, responses=TABLE_RESPONSES, operation_id="exportMissing")
async def missing(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns paths that were requested and answered with 404 or 410, with exact unique visitors, highest first. Such
    requests are not views."""
    page = await report_request.query_store(
        lambda store: store.list_missing_pages(project_id, date_range, limit, offset)
    )
    report = MissingResponse.from_report(page)
    return report_request.render_rows("missing", report, report.missing, offset + limit if page.has_more else None)
