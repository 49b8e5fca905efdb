"""Signals of readers as data for a run: feedback, searches, missing and popular pages."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from copydesk.automations.kinds import Kind
from copydesk.core.text.reader_data import quote_reader_data
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.pages.missing_addresses import is_safe_address

MAX_PAGES = 10
MAX_COMMENTS_PER_PAGE = 5
MAX_SEARCHES = 20
MAX_COMMENT_CHARS = 300
MAX_PATH_CHARS = 200


class PageComplaints(NamedTuple):
    """A page that readers called not helpful more than once, with what they wrote."""

    path: str
    readers: int
    comments: Sequence[str]


class UnansweredSearch(NamedTuple):
    """A phrase that readers searched for, without opening any result."""

    query: str
    searches: int


class MissingPage(NamedTuple):
    """An address that readers opened and that has no page."""

    path: str
    visitors: int
    referrers: Sequence[str]


class PopularPage(NamedTuple):
    """A page with many readers."""

    path: str
    visitors: int


class ReaderSignals(Protocol):
    """Reads the signals of a project since a time in milliseconds. Each list has the strongest first."""

    def list_complaints(self, project_id: str, since: int) -> Sequence[PageComplaints]: ...

    def list_unanswered_searches(self, project_id: str, since: int) -> Sequence[UnansweredSearch]: ...

    def list_missing_pages(self, project_id: str, since: int) -> Sequence[MissingPage]: ...

    def list_popular_pages(self, project_id: str, since: int) -> Sequence[PopularPage]: ...


SIGNAL_KINDS = (Kind.FEEDBACK, Kind.UNANSWERED_SEARCHES, Kind.MISSING_PAGES, Kind.STALE_PAGES)
"""Kinds whose runs are about signals. Without any signal there is nothing to do, and no model is asked."""


def render_signals(signals: ReaderSignals, kind: Kind, project_id: str, since: int) -> str | None:
    """Returns the signals for a run of this kind, quoted as data; None if readers gave none."""
    lines = list(_list_lines(signals, kind, project_id, since))
    if not lines:
        return None
    return quote_reader_data(lines)


def _list_lines(signals: ReaderSignals, kind: Kind, project_id: str, since: int) -> Sequence[str]:
    if kind is Kind.FEEDBACK:
        complaints = signals.list_complaints(project_id, since)[:MAX_PAGES]
        return [line for page in complaints for line in _describe_complaints(page)]
    if kind is Kind.UNANSWERED_SEARCHES:
        searches = signals.list_unanswered_searches(project_id, since)[:MAX_SEARCHES]
        return [f"{_shorten(each.query)} ({each.searches} searches)" for each in searches]
    if kind is Kind.MISSING_PAGES:
        missing = [page for page in signals.list_missing_pages(project_id, since) if is_safe_address(page.path)]
        return [_describe_missing(page) for page in missing[:MAX_SEARCHES]]
    if kind is Kind.STALE_PAGES:
        pages = signals.list_popular_pages(project_id, since)[:MAX_PAGES]
        return [f"{_shorten(page.path, MAX_PATH_CHARS)} ({page.visitors} readers)" for page in pages]
    return []


def _describe_complaints(page: PageComplaints) -> list[str]:
    lines = [f"{_shorten(page.path, MAX_PATH_CHARS)}: {page.readers} readers found it not helpful"]
    return lines + [f"  comment: {_shorten(comment)}" for comment in page.comments[:MAX_COMMENTS_PER_PAGE]]


def _describe_missing(page: MissingPage) -> str:
    origins = ", ".join(_shorten(referrer, MAX_PATH_CHARS) for referrer in page.referrers[:3])
    return f"{page.path} ({page.visitors} readers{f', from {origins}' if origins else ''})"


def _shorten(text: str, max_chars: int = MAX_COMMENT_CHARS) -> str:
    return truncate(to_single_line(text), max_chars)
