"""The request and response bodies of the API of webhooks."""

from typing import Annotated, Any, Literal

from pydantic import Field

from copydesk.core.clock import format_iso, format_iso_or_none
from copydesk.web.api.schemas import ApiModel, RequestModel
from copydesk.webhooks.delivery_log import Delivery, DeliveryDetails
from copydesk.webhooks.endpoints import EVENT_TYPES, Endpoint
from copydesk.webhooks.targets import MAX_URL_CHARS

EventName = Literal[
    "job.completed",
    "job.failed",
    "job.archived",
    "pull_request.opened",
    "pull_request.merged",
    "pull_request.closed",
    "automation.failed",
    "feedback.created",
    "summary.weekly",
]
PayloadFormat = Literal["json", "slack"]
WebhookUrl = Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARS, examples=["https://example.org/hook"])]
ChosenEvents = Annotated[list[EventName], Field(max_length=len(EVENT_TYPES), examples=[["job.failed"]])]


class NewWebhookRequest(RequestModel):
    url: WebhookUrl
    """Where events are sent, with `https://`."""
    format: PayloadFormat = "json"
    """`json` for programs, or `slack` for an incoming webhook of Slack."""
    events: ChosenEvents = Field(default_factory=list)
    """The events to send. The default is all of them."""


class WebhookChangeRequest(RequestModel):
    url: WebhookUrl | None = None
    format: PayloadFormat | None = None
    events: ChosenEvents | None = None
    enabled: bool | None = None
    """False stops deliveries. Events that happen meanwhile are not sent later."""


class WebhookResponse(ApiModel):
    id: str
    url: str
    """The URL without its query, and for Slack without its path, since these may be secret."""
    format: PayloadFormat
    events: list[EventName]
    enabled: bool
    state: Literal["enabled", "disabled", "gone", "failing"]
    """`gone` if the receiver answered 410; `failing` if it has failed for more than an hour."""
    created_at: str
    created_by: str
    last_success_at: str | None
    failing_since: str | None
    last_error: str | None
    previous_secret_until: str | None
    """Until when deliveries are also signed with the secret before the last rotation."""

    @classmethod
    def from_endpoint(cls, endpoint: Endpoint) -> "WebhookResponse":
        return cls(**describe_endpoint(endpoint))


class CreatedWebhookResponse(WebhookResponse):
    secret: str
    """The signing secret. It is shown only once."""

    @classmethod
    def from_secret(cls, endpoint: Endpoint, secret: str) -> "CreatedWebhookResponse":
        return cls(secret=secret, **describe_endpoint(endpoint))


class WebhookListResponse(ApiModel):
    webhooks: list[WebhookResponse]
    """Oldest first."""


class DeliveryResponse(ApiModel):
    id: str
    event_id: str
    """The ID of the event, which is its `webhook-id`. It is the same for every attempt and redelivery."""
    event: str
    state: Literal["waiting", "retrying", "delivered", "given_up", "cancelled"]
    created_at: str
    ended_at: str | None
    next_attempt_at: str | None
    attempts: int
    last_status: int | None
    error: str | None

    @classmethod
    def from_delivery(cls, delivery: Delivery) -> "DeliveryResponse":
        return cls(**describe_delivery(delivery))


class AttemptResponse(ApiModel):
    number: int
    at: str
    duration_ms: int
    status: int | None
    error: str | None
    response: str
    """The beginning of the answer, without secrets."""


class DeliveryDetailsResponse(DeliveryResponse):
    attempt_log: list[AttemptResponse]
    """Oldest first."""
    data: dict[str, Any]
    """The data of the event."""

    @classmethod
    def from_details(cls, details: DeliveryDetails) -> "DeliveryDetailsResponse":
        attempts = [
            AttemptResponse(
                number=attempt.number,
                at=format_iso(attempt.at),
                duration_ms=attempt.duration_ms,
                status=attempt.status,
                error=attempt.error,
                response=attempt.excerpt,
            )
            for attempt in details.attempts
        ]
        return cls(attempt_log=attempts, data=details.data, **describe_delivery(details.delivery))


class DeliveryListResponse(ApiModel):
    deliveries: list[DeliveryResponse]
    """Newest first."""
    next_cursor: str | None


def describe_endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.id,
        "url": endpoint.shown_url,
        "format": endpoint.format,
        "events": list(endpoint.events),
        "enabled": endpoint.enabled,
        "state": endpoint.state,
        "created_at": format_iso(endpoint.created_at),
        "created_by": endpoint.created_by,
        "last_success_at": format_iso_or_none(endpoint.last_success_at),
        "failing_since": format_iso_or_none(endpoint.failing_since),
        "last_error": endpoint.last_error,
        "previous_secret_until": format_iso_or_none(endpoint.previous_secret_until),
    }


def describe_delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "event_id": delivery.event_id,
        "event": delivery.event_type,
        "state": delivery.state,
        "created_at": format_iso(delivery.created_at),
        "ended_at": format_iso_or_none(delivery.ended_at),
        "next_attempt_at": format_iso_or_none(delivery.due_at),
        "attempts": delivery.attempts,
        "last_status": delivery.last_status,
        "error": delivery.error,
    }
