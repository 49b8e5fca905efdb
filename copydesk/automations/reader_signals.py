"""Signals of readers as data for a run: feedback, searches, missing pages, and popular pages that may be stale."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from copydesk.automations.kinds import Kind
from copydesk.core import clock
from copydesk.core.text.reader_data import quote_reader_data
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.pages.missing_addresses import is_safe_address
from copydesk.jobs.projects.page_history import CommitSummary, PageEdits, to_safe_line
from copydesk.jobs.projects.staleness.comparison import ChangedSource, Comparison, StalePage
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets

MAX_PAGES = 10
MAX_COMMENTS_PER_PAGE = 5
MAX_SEARCHES = 20
MAX_COMMENT_CHARS = 300
MAX_PATH_CHARS = 200
MAX_NAME_CHARS = 60
SHOWN_HASH_CHARS = 12
LONG_UNEDITED_MS = 180 * clock.DAY
"""Without source code to compare with, a popular page is listed if it was not edited for this long."""
NO_STALE_PAGES = "The sources of the popular pages have not changed since the pages were last edited."
NO_POPULAR_PAGES = "No page had a reader."
NO_KNOWN_PAGES = "None of the popular pages is a file of the repository."
NO_OLD_PAGES = (
    "The project has no context repository to compare the popular pages with, and none of them was unedited for "
    f"{LONG_UNEDITED_MS // clock.DAY} days."
)
STALE_INTRODUCTION = (
    "Copydesk compared the pages that are read most with the repositories. The sources of these pages changed after "
    "the page was last edited. A changed source need not make the page wrong."
)
UNCOMPARED_INTRODUCTION = (
    "Copydesk could not compare the pages with their sources, because the project has no context repository with code. "
    f"These are the pages that are read most among those that were not edited for {LONG_UNEDITED_MS // clock.DAY} days."
)
INCOMPLETE_NOTE = "The history was too long to read all of it, so older changes may be missing."


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


class StaleSignal(NamedTuple):
    text: str | None
    """The pages as data for the agent; None if there is nothing to do."""
    pages: Sequence[str] = ()
    """The addresses of the listed pages."""
    nothing_to_do: str = ""
    """Why there is nothing to do."""


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
    return []


def render_stale_pages(
    comparison: Comparison, pages: Sequence[PopularPage], told: Mapping[str, int], now: int
) -> StaleSignal:
    """Returns the stale pages with the most readers, quoted as data, or why there is none.

    Without code to compare with, lists popular pages that nobody edited, or was told of, for long.
    """
    readers = {page.path: page.visitors for page in pages}
    if not comparison.edits:
        return StaleSignal(None, nothing_to_do=NO_KNOWN_PAGES if pages else NO_POPULAR_PAGES)
    if comparison.has_sources:
        stale = comparison.stale[:MAX_PAGES]
        if not stale:
            return StaleSignal(None, nothing_to_do=NO_STALE_PAGES)
        lines = [line for page in stale for line in _describe_stale(page, readers[page.address])]
        introduction, addresses = STALE_INTRODUCTION, [page.address for page in stale]
    else:
        limit = now - LONG_UNEDITED_MS
        addresses = [
            page.path
            for page in pages
            if (edits := comparison.edits.get(page.path)) and max(edits.edited.at, told.get(page.path, 0)) <= limit
        ][:MAX_PAGES]
        if not addresses:
            return StaleSignal(None, nothing_to_do=NO_OLD_PAGES)
        lines = [_describe_edits(address, readers[address], comparison.edits[address]) for address in addresses]
        introduction = UNCOMPARED_INTRODUCTION
    if not comparison.is_complete:
        introduction = f"{introduction} {INCOMPLETE_NOTE}"
    quoted = quote_reader_data([redact_secrets(line, ()) for line in lines])
    return StaleSignal(f"{introduction}\n\n{quoted}", addresses)


def _describe_stale(page: StalePage, readers: int) -> list[str]:
    lines = [_describe_edits(page.address, readers, page.edits)]
    lines += [f"  {_describe_source(source)}" for source in page.sources]
    if page.source_count > len(page.sources):
        lines.append(f"  and {page.source_count - len(page.sources)} more changed sources")
    return lines


def _describe_edits(address: str, readers: int, edits: PageEdits) -> str:
    path = to_safe_line(edits.path, MAX_PATH_CHARS)
    edited = _describe_commit(edits.edited)
    return f"{to_safe_line(address, MAX_PATH_CHARS)} ({readers} readers): {path}, last edited {edited}"


def _describe_source(source: ChangedSource) -> str:
    where = to_safe_line(source.path, MAX_PATH_CHARS) + (f" in {source.repository}" if source.repository else "")
    names = ", ".join(to_safe_line(name, MAX_NAME_CHARS) for name in source.names)
    about = f" (about {names})" if names else ""
    commits = "; ".join(_describe_commit(commit) for commit in source.commits)
    more = source.commit_count - len(source.commits)
    return f"changed since: {where}{about}: {commits}" + (f"; and {more} more commits" if more else "")


def _describe_commit(commit: CommitSummary) -> str:
    day = clock.format_iso(commit.at)[:10]
    return f"{day} in {commit.id[:SHOWN_HASH_CHARS]} by {commit.author}: {commit.subject}"


def _describe_complaints(page: PageComplaints) -> list[str]:
    lines = [f"{_shorten(page.path, MAX_PATH_CHARS)}: {page.readers} readers found it not helpful"]
    return lines + [f"  comment: {_shorten(comment)}" for comment in page.comments[:MAX_COMMENTS_PER_PAGE]]


def _describe_missing(page: MissingPage) -> str:
    origins = ", ".join(_shorten(referrer, MAX_PATH_CHARS) for referrer in page.referrers[:3])
    return f"{page.path} ({page.visitors} readers{f', from {origins}' if origins else ''})"


def _shorten(text: str, max_chars: int = MAX_COMMENT_CHARS) -> str:
    return truncate(to_single_line(text), max_chars)
