"""The assistant API: /v1/analytics/{projectId}/assistant/…"""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import Field

from copydesk.analytics.interactions.conversations import Caller, Question, ResponseType
from copydesk.core.clock import format_iso
from copydesk.web.api.dependencies import ProjectId, bearer
from copydesk.web.api.reports.parameters import (
    REPORT_RESPONSES,
    TABLE_RESPONSES,
    ConversationLimit,
    CurrentReportRequest,
    TimeRangeParams,
)
from copydesk.web.api.schemas import ApiModel

router = APIRouter(prefix="/v1/analytics/{projectId}/assistant", tags=["analytics"], dependencies=[Depends(bearer)])


class SourceResponse(ApiModel):
    title: str
    url: str


class ConversationResponse(ApiModel):
    id: str
    timestamp: str
    query: str
    response: str
    response_type: ResponseType | None = Field(None, exclude_if=lambda value: value is None)
    """Left out if none was sent."""
    sources: list[SourceResponse]
    resolution_status: Literal["answered", "unanswered"]
    query_category: str | None
    page_url: str | None
    thread_id: str

    @classmethod
    def from_question(cls, question: Question) -> "ConversationResponse":
        return cls(
            id=question.id,
            timestamp=format_iso(question.created_at),
            query=question.query,
            response=question.response,
            response_type=question.response_type,
            sources=[SourceResponse(title=source.title, url=source.url) for source in question.sources],
            resolution_status="answered" if question.answered else "unanswered",
            query_category=question.category,
            page_url=question.page_url,
            thread_id=question.thread_id,
        )


class ConversationsResponse(ApiModel):
    conversations: list[ConversationResponse]
    """Newest first."""
    next_cursor: str | None
    has_more: bool


class CallerStatsResponse(ApiModel):
    web: int
    api: int
    other: int
    total: int

    @classmethod
    def from_counts(cls, counts: dict[Caller, int]) -> "CallerStatsResponse":
        return cls(
            web=counts[Caller.WEB],
            api=counts[Caller.API],
            other=counts[Caller.OTHER],
            total=sum(counts.values()),
        )


class ThreadMessageResponse(ApiModel):
    id: str
    role: Literal["user", "assistant"]
    content: str
    created_at: str


class ThreadResponse(ApiModel):
    thread_id: str
    created_at: str
    messages: list[ThreadMessageResponse]
    """Oldest first: each question, followed by its answer."""

    @classmethod
    def from_questions(cls, questions: list[Question]) -> "ThreadResponse":
        messages = []
        for question in questions:
            at = format_iso(question.created_at)
            messages += [
                ThreadMessageResponse(id=f"{question.id}-q", role="user", content=question.query, created_at=at),
                ThreadMessageResponse(
                    id=f"{question.id}-a", role="assistant", content=question.response, created_at=at
                ),
            ]
        return cls(thread_id=questions[0].thread_id, created_at=format_iso(questions[0].created_at), messages=messages)


@router.get("", response_model=ConversationsResponse, responses=TABLE_RESPONSES, operation_id="listConversations")
async def list_conversations(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    times: TimeRangeParams,
    limit: ConversationLimit = 100,
    cursor: Annotated[str | None, Query(description="`nextCursor` of the previous page.")] = None,
) -> Response:
    """Returns questions to the assistant and its answers, newest first."""
    questions, next_cursor = await report_request.run_query(
        lambda: report_request.desk.conversations.list_questions(project_id, times, limit, cursor)
    )
    rows = [ConversationResponse.from_question(question) for question in questions]
    report = ConversationsResponse(conversations=rows, next_cursor=next_cursor, has_more=next_cursor is not None)
    return report_request.render_list("assistant", report, rows, {"cursor": next_cursor})


@router.get(
    "/caller-stats", response_model=CallerStatsResponse, responses=REPORT_RESPONSES, operation_id="countCallers"
)
async def count_callers(
    project_id: ProjectId, report_request: CurrentReportRequest, times: TimeRangeParams
) -> Response:
    """Returns how many questions were asked on the website, over the API, and elsewhere."""
    counts = await report_request.run_query(lambda: report_request.desk.conversations.count_callers(project_id, times))
    return report_request.render_json(CallerStatsResponse.from_counts(counts))


@router.get(
    "/threads/{threadId:path}",  # an ID can contain slashes
    response_model=ThreadResponse,
    responses=REPORT_RESPONSES,
    operation_id="getThread",
)
async def get_thread(
    project_id: ProjectId,
    report_request: CurrentReportRequest,
    thread_id: Annotated[str, Path(alias="threadId", description="The thread ID, as the assistant sent it.")],
) -> Response:
    """Returns the messages of one conversation, oldest first."""
    questions = await report_request.run_query(
        lambda: report_request.desk.conversations.list_thread(project_id, thread_id)
    )
    return report_request.render_json(ThreadResponse.from_questions(questions))
