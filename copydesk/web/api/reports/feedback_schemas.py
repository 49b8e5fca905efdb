"""JSON schemas of feedback."""

from typing import Annotated, Literal

from pydantic import Field

from copydesk.analytics.interactions.feedback import FeedbackEntry, FeedbackSource, FeedbackStatus, PageFeedback
from copydesk.core.clock import format_iso
from copydesk.web.api.schemas import ApiModel, LenientRequestModel


class RatingResponse(ApiModel):
    """Feedback on a page."""

    id: str
    path: str
    comment: str | None
    created_at: str
    source: Literal[FeedbackSource.CONTEXTUAL, FeedbackSource.AGENT, FeedbackSource.THUMBS_ONLY]
    """`contextual` has a comment or a contact, `thumbs_only` has neither, and `agent` comes from an AI agent."""
    status: FeedbackStatus
    helpful: bool
    """Whether the page was helpful. False if the reader only left a comment; see `rated`."""
    rated: bool
    """Whether the reader said if the page was helpful."""
    contact: str | None
    """How to reach the reader."""


class SnippetResponse(ApiModel):
    """Feedback on a code snippet."""

    id: str
    path: str
    comment: str | None
    created_at: str
    source: Literal[FeedbackSource.CODE_SNIPPET]
    status: FeedbackStatus
    code: str
    filename: str | None
    lang: str | None


FeedbackEntryResponse = Annotated[RatingResponse | SnippetResponse, Field(discriminator="source")]


def feedback_to_response(entry: FeedbackEntry) -> RatingResponse | SnippetResponse:
    created_at = format_iso(entry.created_at)
    if entry.source is FeedbackSource.CODE_SNIPPET:
        return SnippetResponse(
            id=entry.id,
            path=entry.path,
            comment=entry.comment,
            created_at=created_at,
            source=entry.source,
            status=entry.status,
            code=entry.code or "",
            filename=entry.filename,
            lang=entry.lang,
        )
    return RatingResponse(
        id=entry.id,
        path=entry.path,
        comment=entry.comment,
        created_at=created_at,
        source=entry.source,
        status=entry.status,
        helpful=bool(entry.helpful),
        rated=entry.helpful is not None,
        contact=entry.contact,
    )


class FeedbackResponse(ApiModel):
    feedback: list[FeedbackEntryResponse]
    """Newest first."""
    next_cursor: str | None
    has_more: bool


class PageFeedbackResponse(ApiModel):
    path: str
    thumbs_up: int
    thumbs_down: int
    code: int
    """Feedback on code snippets."""
    total: int
    """All feedback on the page, also comments without a rating."""

    @classmethod
    def from_page_feedback(cls, page: PageFeedback) -> "PageFeedbackResponse":
        return cls(
            path=page.path,
            thumbs_up=page.thumbs_up,
            thumbs_down=page.thumbs_down,
            code=page.code,
            total=page.total,
        )


class FeedbackByPageResponse(ApiModel):
    feedback: list[PageFeedbackResponse]
    """Highest first, then by path."""
    has_more: bool


class FeedbackStatusRequest(LenientRequestModel):
    status: Literal["pending", "in_progress", "resolved", "dismissed"]
    """The new state of triage."""
