"""What a view is when it is kept, and why one is not."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class VisitorClass(StrEnum):
    HUMAN = "human"
    ASSISTANT = "assistant"
    SEARCH = "search"
    TRAINING = "training"
    OTHER = "other"


class DropReason(StrEnum):
    """Why a view is not counted. The words are stable: programs read them."""

    NOT_JSON = "not_json"
    NOT_AN_EVENT = "not_an_event"
    UNKNOWN_FIELD = "unknown_field"
    BAD_FIELD = "bad_field"
    NO_PATH = "no_path"
    NOT_HTTP = "not_http"
    NOT_GET = "not_get"
    NOT_SUCCESSFUL = "not_successful"
    NOT_A_PAGE = "not_a_page"
    PREFETCH = "prefetch"
    PATH_TOO_LONG = "path_too_long"
    PATH_NOT_TEXT = "path_not_text"
    OUTSIDE_BASE = "outside_base"
    BAD_TIMESTAMP = "bad_timestamp"
    TIMESTAMP_IN_FUTURE = "timestamp_in_future"
    TIMESTAMP_TOO_OLD = "timestamp_too_old"
    MALFORMED_LINE = "malformed_line"
    TORN_LINE = "torn_line"
    OTHER_HOST = "other_host"
    INTERNAL = "internal"
    DO_NOT_TRACK = "do_not_track"


DROP_MESSAGES = {
    DropReason.NOT_JSON: "The line is not valid JSON.",
    DropReason.NOT_AN_EVENT: "An event is a JSON object.",
    DropReason.UNKNOWN_FIELD: "The event has a field that is not known here.",
    DropReason.BAD_FIELD: "A field of the event has the wrong type or is too long.",
    DropReason.NO_PATH: "The event names neither a url nor a path.",
    DropReason.NOT_HTTP: "The address is not one of the web (http or https).",
    DropReason.NOT_GET: "Only GET requests are views.",
    DropReason.NOT_SUCCESSFUL: "Only answers with 2xx or 304 are views.",
    DropReason.NOT_A_PAGE: "Only HTML pages and their Markdown twins are views; this is an asset or data.",
    DropReason.PREFETCH: "The browser fetched the page ahead of time; nobody has seen it yet.",
    DropReason.PATH_TOO_LONG: "The path is too long.",
    DropReason.PATH_NOT_TEXT: "The path is not text: it holds control characters or is not UTF-8.",
    DropReason.OUTSIDE_BASE: "The path lies outside the project's base path.",
    DropReason.BAD_TIMESTAMP: "The timestamp is neither ISO 8601 nor a time since 1970.",
    DropReason.TIMESTAMP_IN_FUTURE: "The timestamp is more than a day ahead of this server's clock.",
    DropReason.TIMESTAMP_TOO_OLD: "The timestamp is before the year 2000: probably a clock that was never set.",
    DropReason.MALFORMED_LINE: "The line is not written as the others of its log are.",
    DropReason.TORN_LINE: "The last line of the file breaks off; import the file again when it is complete.",
    DropReason.OTHER_HOST: "The line is about another host than those that were asked for.",
    DropReason.INTERNAL: "The network fetched the page for itself, not for a visitor.",
    DropReason.DO_NOT_TRACK: "The visitor asks not to be tracked, and the project honours that.",
}


@dataclass(frozen=True, slots=True)
class Dropped:
    """A view that is not counted, and why."""

    reason: DropReason
    field: str = ""

    @property
    def message(self) -> str:
        return DROP_MESSAGES[self.reason]


class Classification(NamedTuple):
    """Who asked for the page, and the rule that says so."""

    kind: VisitorClass
    agent: str
    operator: str
    rule: str


UNCLASSIFIED = Classification(VisitorClass.OTHER, "", "", "")
"""Until it is known."""


class PageView(NamedTuple):
    """A page view as it is kept: no address, no agent string, no raw id."""

    project: str
    path: str
    at: int
    kind: VisitorClass
    agent: str
    operator: str
    rule: str
    table: str
    """The version of the table of agents that the rule belongs to."""
    visitor: int | None
    """63 bits, so that every database has a number for it, never 0; None counts as a view, not as a visitor."""
    host: str
    referrer: str
    status: int
    event: int | None
    """128 bits of the event's id, hashed; the same event is not counted twice."""
