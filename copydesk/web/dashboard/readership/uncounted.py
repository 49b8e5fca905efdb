"""Explains which requests of the last days were not counted as views: why, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.analytics.ingest.uncounted_requests import Reason, RefusalReason
from copydesk.analytics.page_view import DROP_MESSAGES, DropReason, VisitorClass
from copydesk.analytics.stores.base import DayRange
from copydesk.core import clock
from copydesk.core.errors import RequestError
from copydesk.core.projects.projects import Project
from copydesk.desk import Desk

UNCOUNTED_DAYS = 7
MAX_AGENTS = 1_000
NOTHING_TO_DO = "Nothing to do."
CHECK_SENDER = "Correct the program that sends the events."
REFUSAL_MESSAGES = {
    RefusalReason.RATE_LIMITED: "The site sent more requests in a minute than the service accepts.",
    RefusalReason.ORIGIN_REFUSED: "The page is on a site that the project does not accept.",
    RefusalReason.INVALID_REQUEST: "The body of the request could not be read.",
}
ADVICE: dict[Reason, str] = {
    DropReason.NOT_JSON: CHECK_SENDER,
    DropReason.NOT_AN_EVENT: CHECK_SENDER,
    DropReason.BAD_FIELD: "Correct the field. The response to the event names it.",
    DropReason.NO_PATH: "Send a url or a path with every event.",
    DropReason.NOT_HTTP: "Send the address of the page as readers see it.",
    DropReason.NOT_GET: NOTHING_TO_DO,
    DropReason.NOT_SUCCESSFUL: "Nothing to do for redirects. Many server errors mean that readers see errors too.",
    DropReason.NOT_A_PAGE: "Nothing to do for images, styles and scripts. If a page is among them, check its address.",
    DropReason.PREFETCH: NOTHING_TO_DO,
    DropReason.SCAN: NOTHING_TO_DO,
    DropReason.PATH_TOO_LONG: NOTHING_TO_DO,
    DropReason.PATH_NOT_TEXT: NOTHING_TO_DO,
    DropReason.OUTSIDE_BASE: "If these are pages of the documentation, change the base path in the settings.",
    DropReason.BAD_TIMESTAMP: CHECK_SENDER,
    DropReason.TIMESTAMP_IN_FUTURE: "Correct the clock of the sender, or send times in UTC.",
    DropReason.TIMESTAMP_TOO_OLD: "Correct the clock of the sender.",
    DropReason.MALFORMED_LINE: "Name the format of the log with --format or --fields.",
    DropReason.TORN_LINE: "Import the file again when it is complete.",
    DropReason.OTHER_HOST: "If these are pages of the documentation, add their host with --site-host.",
    DropReason.INTERNAL: NOTHING_TO_DO,
    DropReason.DO_NOT_TRACK: "Nothing to do, unless you change the setting for browsers that ask not to be tracked.",
    DropReason.LIMIT_REACHED: "Raise the limit in the settings of the service, or keep entries for fewer days.",
    RefusalReason.RATE_LIMITED: "Raise COPYDESK_COLLECT_PER_MINUTE if these are readers.",
    RefusalReason.ORIGIN_REFUSED: "If it is your site, add it to the accepted sites in the settings.",
    RefusalReason.INVALID_REQUEST: "Send JSON as the documentation shows. The response says what is wrong.",
}


@dataclass(frozen=True)
class UncountedRow:
    why: str
    what_to_do: str
    requests: int


@dataclass(frozen=True)
class UncountedReport:
    days: int
    rows: Sequence[UncountedRow]
    """By number of requests, most first."""
    crawler_views: int | None
    """Views by crawlers and others that count neither as human nor as AI; None if the store is unavailable."""

    @property
    def requests(self) -> int:
        return sum(row.requests for row in self.rows)


def build_uncounted_report(desk: Desk, project: Project) -> UncountedReport:
    """Builds the report of the last days with two queries."""
    return UncountedReport(UNCOUNTED_DAYS, list_uncounted(desk, project), _count_crawler_views(desk, project))


def list_uncounted(desk: Desk, project: Project) -> Sequence[UncountedRow]:
    reasons = desk.uncounted.list_reasons(project.id, clock.today() + 1 - UNCOUNTED_DAYS)
    return [UncountedRow(explain_reason(each.reason), ADVICE[each.reason], each.requests) for each in reasons]


def explain_reason(reason: Reason) -> str:
    return REFUSAL_MESSAGES[reason] if isinstance(reason, RefusalReason) else DROP_MESSAGES[reason]


def _count_crawler_views(desk: Desk, project: Project) -> int | None:
    today = clock.today()
    counted = {VisitorClass.HUMAN, *project.collecting.ai_classes}
    try:
        days = DayRange(today + 1 - UNCOUNTED_DAYS, today + 1)
        agents, _ = desk.store.list_agents(project.id, days, MAX_AGENTS)
    except RequestError:
        return None
    return sum(agent.views for agent in agents if agent.kind not in counted)
