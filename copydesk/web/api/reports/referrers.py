"""The referrers API: /v1/analytics/{projectId}/referrers"""

from collections.abc import Sequence
from typing import Literal

from fastapi import APIRouter, Depends, Response

from copydesk.analytics.stores.report_rows import ReferrerReport, ReferrerRow
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


ReferrerKind = Literal["ai", "search", "social", "site", "direct"]


class ReferrerTotalsResponse(ApiModel):
    ai: int
    search: int
    social: int
    site: int
    direct: int


class ReferrerResponse(ApiModel):
    referrer: str | None
    """The host, or an Android app; null for `direct`. `(other)` is all hosts of the kind beyond the limit of hosts."""
    kind: ReferrerKind
    visitors: int
    views: int

    @classmethod
    def list_from_rows(cls, rows: Sequence[ReferrerRow]) -> list["ReferrerResponse"]:
        return [cls.model_validate(vars(row)) for row in rows]


class ReferrersResponse(ApiModel):
    totals: ReferrerTotalsResponse
    """Unique people by kind, in the whole range. A person who came in two ways is counted in both."""
    referrers: list[ReferrerResponse]
    """Most visitors first, then most views, then by name."""
    has_more: bool

    @classmethod
    def from_report(cls, report: ReferrerReport) -> "ReferrersResponse":
        return cls(
            totals=ReferrerTotalsResponse.model_validate(vars(report.totals)),
            referrers=ReferrerResponse.list_from_rows(report.rows),
            has_more=report.has_more,
        )


@router.get("/referrers", response_model=ReferrersResponse, responses=TABLE_RESPONSES, operation_id="exportReferrers")
async def referrers(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns where people came from, with exact unique visitors, highest first. Views from another page of the same
    host are not included."""
    report = await report_request.query_store(lambda store: store.list_referrers(project_id, date_range, limit, offset))
    response = ReferrersResponse.from_report(report)
    next_offset = offset + limit if report.has_more else None
    return report_request.render_rows("referrers", response, response.referrers, next_offset)
