"""What readers searched for: how often, and which results they opened."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Subquery, func, or_, select, update

from copydesk.analytics.date_ranges import ALL_TIME, TimeRange
from copydesk.analytics.interactions.cursors import decode_cursor, encode_cursor
from copydesk.analytics.interactions.interaction_rows import InteractionRows, rows_in_range
from copydesk.analytics.interactions.storage_quota import QuotaReached, count_bytes
from copydesk.analytics.interactions.text_fields import clean_line
from copydesk.analytics.tables import searches
from copydesk.core.clock import HOUR
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.ids import new_id
from copydesk.core.projects.missing_projects import refuse_missing_project

MAX_QUERY_CHARS = 500
CLICK_WINDOW_MS = HOUR // 2
"""How long after a search a click of the same visitor still belongs to it."""
TEXT_COLUMNS = (searches.c.query, searches.c.term, searches.c.clicked)


class SearchesFull(QuotaReached):
    code = "searches_full"
    message = (
        "This project has reached the limit of stored searches, which the server's settings set "
        "(COPYDESK_SEARCH_ENTRIES, COPYDESK_SEARCH_MEGABYTES)."
    )


@dataclass(frozen=True)
class NewSearch:
    query: str
    at: int
    results: int | None = None
    clicked: str | None = None
    """The path of the result that the reader opened."""
    visitor: int | None = None
    event: str | None = None
    """The hash of the event ID."""


@dataclass(frozen=True)
class SearchRow:
    """The searches for one term."""

    query: str
    hits: int
    clicks: int
    top_clicked_page: str | None
    last_at: int

    @property
    def click_rate(self) -> float:
        """Returns the share of searches with a click, in percent."""
        return round(100 * self.clicks / self.hits, 2)


@dataclass(frozen=True)
class LeadingSearch:
    """The searches for one term after which readers opened a page."""

    query: str
    hits: int


@dataclass(frozen=True)
class SearchReport:
    rows: Sequence[SearchRow]
    total: int
    """The number of searches for all terms."""
    next_cursor: str | None


class Searches(InteractionRows):
    table = searches

    def add_all(self, project_id: str, new_searches: Sequence[NewSearch]) -> int:
        """Stores searches in one transaction, durable on return. Returns how many were not known before."""
        texts = [text for new in new_searches for text in (new.query, new.query, new.clicked)]
        self._quota.reserve(project_id, count_bytes(*texts), len(new_searches))
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                return sum(self._add(tx, project_id, new) for new in new_searches)
        except BaseException:
            self._quota.invalidate(project_id)  # the quota counted rows that were not stored
            raise

    def report(
        self,
        project_id: str,
        times: TimeRange = ALL_TIME,
        limit: int = 50,
        cursor: str | None = None,
        *,
        is_clicked: bool | None = None,
    ) -> SearchReport:
        """Returns terms by number of searches, most first. `is_clicked` selects terms with, or without, any click."""
        terms = self._group_by_term(project_id, times, is_clicked)
        query = select(terms).order_by(terms.c.hits.desc(), self._by_code_point(terms.c.term)).limit(limit + 1)
        if cursor is not None:
            hits, term = decode_cursor(cursor)
            is_later = (terms.c.hits == hits) & (self._by_code_point(terms.c.term) > term)
            query = query.where(or_(terms.c.hits < hits, is_later))
        total = select(func.count()).select_from(searches).where(*rows_in_range(searches, project_id, times))
        with self.database.read() as tx:
            groups = tx.execute(query).all()
            page = groups[:limit]
            pages = _find_top_clicked_pages(tx, project_id, times, [group.term for group in page])
            count = tx.execute(total).scalar_one()
        rows = [SearchRow(g.query, g.hits, g.clicks, pages.get(g.term), g.last_at) for g in page]
        next_cursor = encode_cursor(page[-1].hits, page[-1].term) if len(groups) > limit else None
        return SearchReport(rows, count, next_cursor)

    def list_leading_to(
        self, project_id: str, path: str, times: TimeRange = ALL_TIME, limit: int = 10
    ) -> Sequence[LeadingSearch]:
        """Returns the terms after which readers opened this page, most frequent first."""
        hits = func.count().label("hits")
        query = (
            select(func.min(self._by_code_point(searches.c.query)).label("query"), hits)
            .where(*rows_in_range(searches, project_id, times), searches.c.clicked == path)
            .group_by(searches.c.term)
            .order_by(hits.desc(), self._by_code_point(searches.c.term))
            .limit(limit)
        )
        with self.database.read() as tx:
            return [LeadingSearch(row.query, row.hits) for row in tx.execute(query)]

    def _add(self, tx: Connection, project_id: str, new: NewSearch) -> bool:
        query = clean_line(new.query)
        term = query.casefold()
        if new.clicked is not None and new.visitor is not None:
            if self._is_known_click(tx, project_id, new):
                return False
            search_id = self._find_search(tx, project_id, term, new)
            if search_id is not None:
                click = {"clicked": new.clicked, "click_event": new.event}
                tx.execute(update(searches).where(searches.c.id == search_id).values(click))
                return True
        row = {
            "id": new_id("srch"),
            "project_id": project_id,
            "query": query,
            "term": term,
            "results": new.results,
            "clicked": new.clicked,
            "visitor": new.visitor,
            "event": new.event,
            "created_at": new.at,
        }
        return insert_if_absent(tx, searches, row)

    def _is_known_click(self, tx: Connection, project_id: str, new: NewSearch) -> bool:
        """Returns whether an earlier click had the same event ID."""
        if new.event is None:
            return False
        of_visitor = searches.c.project_id == project_id, searches.c.visitor == new.visitor
        is_same = or_(searches.c.click_event == new.event, searches.c.event == new.event)
        query = select(searches.c.id).where(*of_visitor, is_same)
        return tx.execute(query.limit(1)).first() is not None

    def _find_search(self, tx: Connection, project_id: str, term: str, new: NewSearch) -> str | None:
        """Returns the id of the visitor's latest search for this term that has no click yet."""
        earlier = (
            select(searches.c.id)
            .where(
                searches.c.project_id == project_id,
                searches.c.visitor == new.visitor,
                searches.c.term == term,
                searches.c.clicked.is_(None),
                searches.c.created_at.between(new.at - CLICK_WINDOW_MS, new.at),
            )
            .order_by(searches.c.created_at.desc())
            .limit(1)
        )
        return tx.execute(earlier).scalar()

    def _group_by_term(self, project_id: str, times: TimeRange, is_clicked: bool | None) -> Subquery:
        clicks = func.count(searches.c.clicked)
        groups = select(
            searches.c.term.label("term"),
            func.min(self._by_code_point(searches.c.query)).label("query"),
            func.count().label("hits"),
            clicks.label("clicks"),
            func.max(searches.c.created_at).label("last_at"),
        )
        groups = groups.where(*rows_in_range(searches, project_id, times)).group_by(searches.c.term)
        if is_clicked is not None:
            groups = groups.having(clicks > 0 if is_clicked else clicks == 0)
        return groups.subquery()

    def _by_code_point(self, column: ColumnElement[str]) -> ColumnElement[str]:
        return column if self.database.is_sqlite else column.collate("C")


def _find_top_clicked_pages(tx: Connection, project_id: str, times: TimeRange, terms: Sequence[str]) -> dict[str, str]:
    """Returns the page that was opened most often for each term; of equal ones, the first by path."""
    clicks = func.count().label("clicks")
    query = (
        select(searches.c.term, searches.c.clicked, clicks)
        .where(*rows_in_range(searches, project_id, times), searches.c.term.in_(terms), searches.c.clicked.is_not(None))
        .group_by(searches.c.term, searches.c.clicked)
    )
    pages: dict[str, str] = {}
    for row in sorted(tx.execute(query), key=lambda row: (-row.clicks, row.clicked)):
        pages.setdefault(row.term, row.clicked)
    return pages
