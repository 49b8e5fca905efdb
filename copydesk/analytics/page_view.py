"""Page views as they are stored, and the reasons why a view is dropped."""

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
    """Why a view is not counted. The values are part of the API and never change."""

    NOT_JSON = "not_json"
    NOT_AN_EVENT = "not_an_event"
    BAD_FIELD = "bad_field"
    NO_PATH = "no_path"
    NOT_HTTP = "not_http"
    NOT_GET = "not_get"
    NOT_SUCCESSFUL = "not_successful"
    NOT_A_PAGE = "not_a_page"
    PREFETCH = "prefetch"
    SCAN = "scan"
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
    LIMIT_REACHED = "limit_reached"


DROP_MESSAGES = {
    DropReason.NOT_JSON: "The line is not valid JSON.",
    DropReason.NOT_AN_EVENT: "The event is not a JSON object.",
    DropReason.BAD_FIELD: "A field of the event has the wrong type or is too long.",
    DropReason.NO_PATH: "The event has neither a URL nor a path.",
    DropReason.NOT_HTTP: "The URL does not start with http:// or https://.",
    DropReason.NOT_GET: "The request is not a GET request.",
    DropReason.NOT_SUCCESSFUL: "The response status is not 2xx, 304, 404 or 410.",
    DropReason.NOT_A_PAGE: "The path is an asset or data, not an HTML page or its Markdown version.",
    DropReason.PREFETCH: "The browser loaded the page in advance and has not shown it.",
    DropReason.SCAN: "The page does not exist, and its path is one that vulnerability scanners try on every site.",
    DropReason.PATH_TOO_LONG: "The path is too long.",
    DropReason.PATH_NOT_TEXT: "The path contains control characters or is not valid UTF-8.",
    DropReason.OUTSIDE_BASE: "The path is outside the project's base path.",
    DropReason.BAD_TIMESTAMP: "The timestamp is neither an ISO 8601 time nor a Unix time.",
    DropReason.TIMESTAMP_IN_FUTURE: "The timestamp is more than a day ahead of this server's clock.",
    DropReason.TIMESTAMP_TOO_OLD: "The timestamp is before the year 2000. The sender's clock is probably not set.",
    DropReason.MALFORMED_LINE: "The line does not match the format of its log.",
    DropReason.TORN_LINE: "The last line of the file is incomplete. Import the file again when it is complete.",
    DropReason.OTHER_HOST: "The line is for a host that you did not select.",
    DropReason.INTERNAL: "The CDN fetched the page itself, not for a visitor.",
    DropReason.DO_NOT_TRACK: "The visitor asks not to be tracked, and the project respects that.",
    DropReason.LIMIT_REACHED: "The project has reached a limit of stored or daily entries in the server's settings.",
}


MISSING_STATUSES = frozenset({404, 410})
"""The response statuses of pages that do not exist. Such requests are counted apart from views."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A view that is not counted, with the reason and the field that caused it (empty if none did)."""

    reason: DropReason
    field: str = ""

    @property
    def message(self) -> str:
        return DROP_MESSAGES[self.reason]


class Classification(NamedTuple):
    """The class, agent and operator of a visitor, and the rule that decided."""

    kind: VisitorClass
    agent: str
    operator: str
    rule: str


UNCLASSIFIED = Classification(VisitorClass.OTHER, "", "", "")
"""The value until the classifier has run."""


class PageView(NamedTuple):
    """A page view as it is stored: without the IP address, the user agent and the raw visitor id.

    Also a request for a page that does not exist (a missing page), which its status tells from a view.
    """

    project: str
    path: str
    at: int
    kind: VisitorClass
    agent: str
    operator: str
    rule: str
    agent_table_version: str
    """The version of the agent table that the rule belongs to."""
    visitor: int | None
    """A hash of 63 bits, which fits a signed integer of every database; never 0. None counts as a view only."""
    host: str
    referrer: str
    """The host that the visitor came from, or "". For a missing page, a path if it was a page of the same site."""
    status: int
    event: int | None
    """A hash of the event's id, 128 bits. An event is counted once. None means that the view has no event id."""

    @property
    def is_missing(self) -> bool:
        """Returns whether the page did not exist."""
        return self.status in MISSING_STATUSES
