"""The feedback API: /v1/analytics/{projectId}/feedback/…"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from copydesk.core.ids import id_pattern
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import (
    REPORT_RESPONSES,
    CurrentReportRequest,
    EntryLimit,
    Offset,
    TimeRangeParams,
)
from copydesk.web.api.reports.schemas import (
    FeedbackByPageResponse,
    FeedbackEntryResponse,
    FeedbackResponse,
    PageFeedbackResponse,
)

router = APIRouter(prefix="/v1/analytics/{projectId}/feedback", tags=["analytics"], dependencies=[Depends(bearer)])


@router.get("", response_model=FeedbackResponse, responses=REPORT_RESPONSES, operation_id="listFeedback")
async def list_feedback(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    times: TimeRangeParams,
    limit: EntryLimit = 50,
    cursor: Annotated[
        str | None, Query(description="`nextCursor` of the previous page.", pattern=id_pattern("fb"))
    ] = None,
) -> Response:
    """Returns feedback from readers, newest first."""
    entries, next_cursor = await report_request.run_query(
        lambda: report_request.desk.feedback.list_entries(project_id, times, limit, cursor)
    )
    feedback = [FeedbackEntryResponse.from_entry(entry) for entry in entries]
    return report_request.render_json(
        FeedbackResponse(feedback=feedback, next_cursor=next_cursor, has_more=next_cursor is not None)
    )


@router.get(
    "/by-page", response_model=FeedbackByPageResponse, responses=REPORT_RESPONSES, operation_id="feedbackByPage"
)
async def count_feedback_by_page(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    times: TimeRangeParams,
    limit: EntryLimit = 50,
    offset: Offset = 0,
) -> Response:
    """Returns feedback per page, highest first."""
    pages, has_more = await report_request.run_query(
        lambda: report_request.desk.feedback.count_by_page(project_id, times, limit, offset)
    )
    return report_request.render_json(
        FeedbackByPageResponse(
            pages=[PageFeedbackResponse.from_page_feedback(page) for page in pages], has_more=has_more
        )
    )
