"""The feedback API: /v1/analytics/{projectId}/feedback/…"""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from copydesk.analytics.interactions.feedback import FeedbackFilter, FeedbackSource, FeedbackStatus
from copydesk.core.errors import ErrorDetail, InvalidRequest
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.reports.feedback_schemas import (
    FeedbackByPageResponse,
    FeedbackEntryResponse,
    FeedbackResponse,
    FeedbackStatusRequest,
    PageFeedbackResponse,
    feedback_to_response,
)
from copydesk.web.api.reports.parameters import (
    TABLE_RESPONSES,
    CurrentReportRequest,
    EntryLimit,
    Offset,
    TimeRangeParams,
)

STATUS_PATTERN = "|".join(FeedbackStatus)

router = APIRouter(prefix="/v1/analytics/{projectId}/feedback", tags=["analytics"], dependencies=[Depends(bearer)])


async def read_filter_params(
    times: TimeRangeParams,
    source: Annotated[FeedbackSource | None, Query(description="Return only feedback of this source.")] = None,
    status: Annotated[
        str | None,
        Query(
            description="Return only feedback with one of these statuses, separated by commas.",
            json_schema_extra={"pattern": f"^({STATUS_PATTERN})(,({STATUS_PATTERN}))*$"},
        ),
    ] = None,
) -> FeedbackFilter:
    return FeedbackFilter(times, source, _parse_statuses(status) if status else ())


FilterParams = Annotated[FeedbackFilter, Depends(read_filter_params)]
FeedbackId = Annotated[str, Path(alias="feedbackId", description="The ID of the feedback entry.")]


@router.get("", response_model=FeedbackResponse, responses=TABLE_RESPONSES, operation_id="listFeedback")
async def list_feedback(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    filter_by: FilterParams,
    limit: EntryLimit = 50,
    cursor: Annotated[str | None, Query(description="`nextCursor` of the previous page.")] = None,
) -> Response:
    """Returns feedback from readers, newest first."""
    entries, next_cursor = await report_request.run_query(
        lambda: report_request.desk.feedback.list_entries(project_id, filter_by, limit, cursor)
    )
    report = FeedbackResponse(
        feedback=[feedback_to_response(entry) for entry in entries],
        next_cursor=next_cursor,
        has_more=next_cursor is not None,
    )
    return report_request.render_list("feedback", report, report.feedback, {"cursor": next_cursor})


@router.get("/by-page", response_model=FeedbackByPageResponse, responses=TABLE_RESPONSES, operation_id="feedbackByPage")
async def count_feedback_by_page(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    filter_by: FilterParams,
    limit: EntryLimit = 10,
    offset: Offset = 0,
) -> Response:
    """Returns feedback per page, highest first."""
    pages, has_more = await report_request.run_query(
        lambda: report_request.desk.feedback.count_by_page(project_id, filter_by, limit, offset)
    )
    rows = [PageFeedbackResponse.from_page_feedback(page) for page in pages]
    report = FeedbackByPageResponse(feedback=rows, has_more=has_more)
    next_page = {"offset": str(offset + limit) if has_more else None}
    return report_request.render_list("feedback-by-page", report, rows, next_page)


@router.patch("/{feedbackId}", responses=error_responses(413, 415), operation_id="updateFeedback")
async def update_feedback(
    project_id: ProjectId,
    feedback_id: FeedbackId,
    project: CurrentProject,
    body: FeedbackStatusRequest,
    desk: OpenDesk,
) -> FeedbackEntryResponse:
    """Changes the triage status of a feedback entry."""
    status = FeedbackStatus(body.status)
    return feedback_to_response(await run_in_thread(desk.feedback.set_status, project.id, feedback_id, status))


def _parse_statuses(text: str) -> tuple[FeedbackStatus, ...]:
    try:
        return tuple(FeedbackStatus(word.strip()) for word in text.split(","))
    except ValueError:
        problem = f"must be one or more of {', '.join(FeedbackStatus)}, separated by commas."
        raise InvalidRequest(f"status: {problem}", details=[ErrorDetail("status", problem)]) from None
