"""The sections API: /v1/analytics/{projectId}/sections"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BeforeValidator, Field

from copydesk.analytics.stores.base import MAX_SECTION_DEPTH, SectionQuery
from copydesk.analytics.stores.report_rows import SectionReport
from copydesk.core.errors import InvalidRequest
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import (
    TABLE_RESPONSES,
    CurrentReportRequest,
    DateRangeParams,
    Offset,
    RowLimit,
    build_limit_validator,
)
from copydesk.web.api.schemas import ApiModel

MAX_PREFIX_CHARS = 2048

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])

DepthParam = Annotated[
    int | None,
    Field(ge=1, le=MAX_SECTION_DEPTH),
    BeforeValidator(build_limit_validator(MAX_SECTION_DEPTH)),
    Query(description="The number of path segments of a section: 1 by default, or one more than `prefix` has."),
]
PrefixParam = Annotated[
    str | None,
    Query(max_length=MAX_PREFIX_CHARS, description="Only sections below this one, such as `/ja`."),
]


class SectionTotalsResponse(ApiModel):
    human: int
    ai: int
    total: int
    views: int


class SectionResponse(ApiModel):
    section: str
    human: int
    ai: int
    total: int
    """Unique visitors of all pages of the section."""
    views: int
    """Views by people and AI."""


class SectionsResponse(ApiModel):
    totals: SectionTotalsResponse
    """The section `prefix`, or the whole site."""
    sections: list[SectionResponse]
    """Highest total first, then by section."""
    has_more: bool

    @classmethod
    def from_report(cls, report: SectionReport) -> "SectionsResponse":
        return cls(
            totals=SectionTotalsResponse(**_to_fields(report.totals), views=report.views),
            sections=[
                SectionResponse(section=row.section, **_to_fields(row.count), views=row.views) for row in report.rows
            ],
            has_more=report.has_more,
        )


def _to_fields(counts: Any) -> dict[str, int]:
    return dict(vars(counts))


def parse_section_query(prefix: str | None, depth: int | None) -> SectionQuery:
    """Returns the query of these parameters. Raises InvalidRequest unless the sections are below the prefix."""
    parts = [part for part in (prefix or "").split("/") if part]
    if prefix and not prefix.startswith("/"):
        raise InvalidRequest("prefix must start with a slash.")
    if len(parts) >= MAX_SECTION_DEPTH:
        raise InvalidRequest(f"prefix must have fewer than {MAX_SECTION_DEPTH} segments.")
    if depth is not None and depth <= len(parts):
        raise InvalidRequest("depth must be greater than the number of segments of prefix.")
    return SectionQuery("".join(f"/{part}" for part in parts), depth or len(parts) + 1)


@router.get("/sections", response_model=SectionsResponse, responses=TABLE_RESPONSES, operation_id="exportSections")
async def sections(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    date_range: DateRangeParams,
    depth: DepthParam = None,
    prefix: PrefixParam = None,
    limit: RowLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns exact unique visitors by section, highest first. A section is the beginning of a path: `/ja` is the page
    `/ja` and all pages below it."""
    query = parse_section_query(prefix, depth)
    report = await report_request.query_store(
        lambda store: store.list_sections(project_id, date_range, limit, offset, query)
    )
    response = SectionsResponse.from_report(report)
    next_offset = offset + limit if report.has_more else None
    return report_request.render_rows("sections", response, response.sections, next_offset)
