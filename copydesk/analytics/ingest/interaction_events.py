"""The schema of interactions that a site's server sends as events, and their conversion to rows."""

from typing import Annotated

import msgspec
from msgspec import Meta

from copydesk.analytics.ingest.event_schema import (
    MAX_TIMESTAMP_CHARS,
    Event,
    Header,
    Id,
    Url,
    drop_from_error,
    validate_event,
)
from copydesk.analytics.ingest.raw_view import SiteConfig, parse_timestamp
from copydesk.analytics.interactions.conversations import (
    MAX_ANSWER_CHARS,
    MAX_QUESTION_CHARS,
    MAX_SOURCES,
    Caller,
    NewQuestion,
    ResponseType,
    Source,
)
from copydesk.analytics.interactions.feedback import (
    MAX_CODE_CHARS,
    MAX_COMMENT_CHARS,
    MAX_CONTACT_CHARS,
    FeedbackDetails,
    FeedbackSource,
    NewFeedback,
    build_entry,
)
from copydesk.analytics.interactions.searches import MAX_QUERY_CHARS, NewSearch
from copydesk.analytics.interactions.text_fields import clean_line, clean_text
from copydesk.analytics.ip_addresses import parse_ip
from copydesk.analytics.page_paths import normalize_url
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest

MAX_LABEL_CHARS = 100
NO_PATH = Dropped(DropReason.NO_PATH)

Timestamp = Annotated[str, Meta(max_length=MAX_TIMESTAMP_CHARS)] | int | float | None


class SourceItem(msgspec.Struct, frozen=True):
    title: Annotated[str, Meta(max_length=1_000)] = ""
    url: Url = ""


class SearchEvent(msgspec.Struct, rename="camel", frozen=True, tag_field="type", tag="search"):
    """A search on the site."""

    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS)]
    results: Annotated[Annotated[int, Meta(ge=0, le=1 << 30)] | None, Meta(description="How many were found.")] = None
    clicked: Annotated[Url | None, Meta(description="The URL or path of the result that the reader opened.")] = None
    timestamp: Timestamp = None
    user_agent: Header | None = None
    ip: Id | None = None
    visitor_id: Id | int | None = None
    event_id: Id | None = None


class AssistantEvent(msgspec.Struct, rename="camel", frozen=True, tag_field="type", tag="assistant"):
    """A question to an assistant, and its answer."""

    thread_id: Annotated[str, Meta(min_length=1, max_length=256)]
    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION_CHARS)]
    response: Annotated[str, Meta(max_length=MAX_ANSWER_CHARS)]
    sources: Annotated[list[SourceItem], Meta(max_length=MAX_SOURCES)] | None = None
    answered: Annotated[bool | None, Meta(description="Default: whether there is an answer.")] = None
    caller: Annotated[Annotated[str, Meta(max_length=MAX_LABEL_CHARS)] | None, Meta(examples=["web", "api"])] = None
    response_type: ResponseType | None = None
    query_category: Annotated[str, Meta(max_length=MAX_LABEL_CHARS)] | None = None
    page_url: Url | None = None
    timestamp: Timestamp = None
    user_agent: Header | None = None
    ip: Id | None = None
    visitor_id: Id | int | None = None
    event_id: Id | None = None


class FeedbackEvent(msgspec.Struct, rename="camel", frozen=True, tag_field="type", tag="feedback"):
    """Feedback on a page or a code snippet. Needs a rating, a comment or code."""

    url: Url | None = None
    path: Url | None = None
    helpful: bool | None = None
    comment: Annotated[str, Meta(max_length=MAX_COMMENT_CHARS)] | None = None
    contact: Annotated[str, Meta(max_length=MAX_CONTACT_CHARS)] | None = None
    code: Annotated[str, Meta(max_length=MAX_CODE_CHARS)] | None = None
    filename: Annotated[str, Meta(max_length=300)] | None = None
    lang: Annotated[str, Meta(max_length=60)] | None = None
    source: Annotated[
        FeedbackSource | None,
        Meta(description="By default, it follows from what is sent. `agent` means that an AI agent sends it."),
    ] = None
    timestamp: Timestamp = None
    user_agent: Header | None = None
    ip: Id | None = None
    visitor_id: Id | int | None = None
    event_id: Id | None = None


InteractionEvent = SearchEvent | AssistantEvent | FeedbackEvent
NewInteraction = NewSearch | NewQuestion | NewFeedback


def validate_any_event(event: object) -> Event | InteractionEvent | Dropped:
    """Returns the view or interaction, or why it is dropped. Ignores unknown fields."""
    if not isinstance(event, dict) or event.get("type") in (None, "view"):
        return validate_event(event)
    try:
        interaction: InteractionEvent = msgspec.convert(event, InteractionEvent)
    except msgspec.ValidationError as error:
        return drop_from_error(str(error))
    return interaction


def interaction_from_event(event: InteractionEvent, site: SiteConfig, now: int) -> NewInteraction | Dropped:
    at = now if event.timestamp is None else parse_timestamp(event.timestamp, now)
    if isinstance(at, Dropped):
        return at
    if isinstance(event, SearchEvent):
        return _convert_search(event, site, at)
    if isinstance(event, AssistantEvent):
        return _convert_question(event, site, at)
    return _convert_feedback(event, site, at)


def hash_event_id(site: SiteConfig, event_id: str | None) -> str | None:
    return f"{site.hasher.hash_event(event_id):032x}" if event_id else None


def find_clicked_path(clicked: str | None, site: SiteConfig) -> str | Dropped | None:
    """Returns the path of the result that a reader opened."""
    if not clicked:
        return None
    location = normalize_url(clicked, site.base_path, site.kept_params)
    return Dropped(location.reason, "clicked") if isinstance(location, Dropped) else location.path


def _hash_visitor(event: InteractionEvent, site: SiteConfig, at: int) -> int | None:
    visitor_id = None if event.visitor_id in (None, "") else str(event.visitor_id)
    return site.hasher.hash_visitor(at, visitor_id, parse_ip(event.ip) if event.ip else None, event.user_agent)


def _convert_search(event: SearchEvent, site: SiteConfig, at: int) -> NewSearch | Dropped:
    query = clean_line(event.query)
    clicked = find_clicked_path(event.clicked, site)
    if not query:
        return Dropped(DropReason.BAD_FIELD, "query")
    if isinstance(clicked, Dropped):
        return clicked
    visitor, event_hash = _hash_visitor(event, site, at), hash_event_id(site, event.event_id)
    return NewSearch(query, at, event.results, clicked, visitor, event_hash)


def _convert_question(event: AssistantEvent, site: SiteConfig, at: int) -> NewQuestion | Dropped:
    query, response, thread_id = clean_text(event.query), clean_text(event.response), clean_line(event.thread_id)
    if not query or not thread_id:
        return Dropped(DropReason.BAD_FIELD, "query" if thread_id else "threadId")
    sources = [Source(clean_line(each.title), clean_line(each.url)) for each in event.sources or ()]
    return NewQuestion(
        thread_id=thread_id,
        query=query,
        response=response,
        at=at,
        sources=sources,
        answered=bool(response) if event.answered is None else event.answered,
        response_type=event.response_type,
        category=clean_line(event.query_category or "") or None,
        page_url=clean_line(event.page_url or "") or None,
        caller=Caller(event.caller) if event.caller in list(Caller) else Caller.OTHER,
        visitor=_hash_visitor(event, site, at),
        event=hash_event_id(site, event.event_id),
    )


def _convert_feedback(event: FeedbackEvent, site: SiteConfig, at: int) -> NewFeedback | Dropped:
    url = event.url or event.path
    if not url:
        return NO_PATH
    location = normalize_url(url, site.base_path, site.kept_params)
    if isinstance(location, Dropped):
        return location
    details = FeedbackDetails(event.contact, event.code, event.filename, event.lang, event.source)
    try:
        entry = build_entry(location.path, event.helpful, event.comment, at, details)
    except InvalidRequest as error:
        return Dropped(DropReason.BAD_FIELD, error.details[0].field)
    return NewFeedback(entry, _hash_visitor(event, site, at), hash_event_id(site, event.event_id))
