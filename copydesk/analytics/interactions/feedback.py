"""Readers' feedback: whether a page helped, a comment, or a remark on a code snippet; and its triage."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, case, func, insert, select, update

from copydesk.analytics.date_ranges import ALL_TIME, TimeRange
from copydesk.analytics.interactions.interaction_rows import InteractionRows, read_page, rows_in_range
from copydesk.analytics.interactions.storage_quota import StorageQuota, count_bytes
from copydesk.analytics.interactions.text_fields import clean_optional, invalid_field, validate_path
from copydesk.analytics.tables import feedback
from copydesk.core.clock import DAY, format_iso
from copydesk.core.db.database import Database
from copydesk.core.errors import NotFound
from copydesk.core.ids import is_id, new_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.project_events import EventType, delete_events_about, record_event
from copydesk.core.rate_limits.limits import RateLimit, consume

MAX_COMMENT_CHARS = MAX_CODE_CHARS = 4_000
MAX_CONTACT_CHARS = MAX_FILENAME_CHARS = 300
MAX_LANG_CHARS = 60


class FeedbackSource(StrEnum):
    CODE_SNIPPET = "code_snippet"
    CONTEXTUAL = "contextual"
    AGENT = "agent"
    THUMBS_ONLY = "thumbs_only"


class FeedbackStatus(StrEnum):
    """The state of triage."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    RESOLVED = "resolved"
    DISMISSED = "dismissed"


OPEN_STATUSES = (FeedbackStatus.PENDING, FeedbackStatus.IN_PROGRESS)


class FeedbackNotFound(NotFound):
    code = "feedback_not_found"
    message = "Feedback entry not found in this project."


@dataclass(frozen=True)
class FeedbackDetails:
    """The parts of feedback besides a rating and a comment."""

    contact: str | None = None
    code: str | None = None
    filename: str | None = None
    lang: str | None = None
    source: FeedbackSource | None = None
    """None means that it follows from the other fields."""
    visitor: int | None = None
    event: str | None = None
    """The hash of the event ID."""


NO_DETAILS = FeedbackDetails()


@dataclass(frozen=True)
class FeedbackEntry:
    id: str
    path: str
    helpful: bool | None
    """None if the reader gave no rating."""
    comment: str | None
    created_at: int
    source: FeedbackSource
    status: FeedbackStatus
    contact: str | None
    code: str | None
    filename: str | None
    lang: str | None


ENTRY_COLUMNS = tuple(feedback.c[name] for name in FeedbackEntry.__dataclass_fields__)
TEXT_COLUMNS = tuple(feedback.c[name] for name in ("path", "comment", "contact", "code", "filename", "lang"))


@dataclass(frozen=True)
class NewFeedback:
    entry: FeedbackEntry
    visitor: int | None = None
    event: str | None = None
    """The hash of the event ID."""


@dataclass(frozen=True)
class FeedbackFilter:
    times: TimeRange = ALL_TIME
    source: FeedbackSource | None = None
    statuses: Collection[FeedbackStatus] = ()
    """Empty means every status."""
    path: str | None = None
    helpful: bool | None = None
    """None means every rating, and feedback without one."""
    has_comment: bool = False
    """True means only entries with a comment."""

    def build_conditions(self, project_id: str) -> list[ColumnElement[bool]]:
        conditions = rows_in_range(feedback, project_id, self.times)
        if self.source is not None:
            conditions.append(feedback.c.source == self.source)
        if self.statuses:
            conditions.append(feedback.c.status.in_(self.statuses))
        if self.path is not None:
            conditions.append(feedback.c.path == self.path)
        if self.helpful is not None:
            conditions.append(feedback.c.helpful.is_(self.helpful))
        if self.has_comment:
            conditions.append(feedback.c.comment.is_not(None))
        return conditions


ALL_FEEDBACK = FeedbackFilter()


@dataclass(frozen=True)
class PageFeedback:
    path: str
    thumbs_up: int
    thumbs_down: int
    code: int
    comments: int
    total: int


class Feedback(InteractionRows):
    table = feedback

    def __init__(self, database: Database, quota: StorageQuota, max_per_day: int) -> None:
        super().__init__(database, quota)
        self._daily_limit = RateLimit("feedback-project", max_per_day, DAY, "COPYDESK_FEEDBACK_PER_DAY")

    def add(
        self,
        project_id: str,
        path: str,
        helpful: bool | None,
        comment: str | None,
        created_at: int,
        details: FeedbackDetails = NO_DETAILS,
    ) -> FeedbackEntry | None:
        """Stores an entry, durable on return. Returns None if an entry with the same event ID exists."""
        entry = build_entry(path, helpful, comment, created_at, details)
        stored = self.add_all(project_id, [NewFeedback(entry, details.visitor, details.event)])
        return entry if stored else None

    def add_all(self, project_id: str, new_entries: Sequence[NewFeedback]) -> int:
        """Stores entries in one transaction, durable on return. Returns how many were not known before."""
        texts = [getattr(new.entry, column.name) for new in new_entries for column in TEXT_COLUMNS]
        self._quota.reserve(project_id, count_bytes(*texts), len(new_entries))
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                stored = sum(self._add(tx, project_id, new) for new in new_entries)
        except BaseException:
            self._quota.invalidate(project_id)  # the quota counted entries that were not stored
            raise
        if stored < len(new_entries):
            self._quota.invalidate(project_id)
        return stored

    def list_entries(
        self,
        project_id: str,
        filter_by: FeedbackFilter = ALL_FEEDBACK,
        limit: int = 50,
        cursor: str | None = None,
    ) -> tuple[list[FeedbackEntry], str | None]:
        """Returns entries, newest first, and the cursor of the next page (None on the last page)."""
        query = select(*ENTRY_COLUMNS).where(*filter_by.build_conditions(project_id))
        with self.database.read() as tx:
            rows, next_cursor = read_page(tx, feedback, query, limit, cursor)
        return [_entry_from_row(row) for row in rows], next_cursor

    def get_entry(self, project_id: str, entry_id: str) -> FeedbackEntry:
        """Returns an entry. Raises FeedbackNotFound for an entry of another project, too."""
        same_row = (feedback.c.id == entry_id) & (feedback.c.project_id == project_id)
        with self.database.read() as tx:
            row = tx.execute(select(*ENTRY_COLUMNS).where(same_row)).first() if is_id(entry_id, "fb") else None
        if row is None:
            raise FeedbackNotFound
        return _entry_from_row(row)

    def set_status(self, project_id: str, entry_id: str, status: FeedbackStatus) -> FeedbackEntry:
        """Changes the triage status of an entry. Raises FeedbackNotFound for an entry of another project, too."""
        if is_id(entry_id, "fb"):
            same_row = (feedback.c.id == entry_id) & (feedback.c.project_id == project_id)
            with self.database.write() as tx:
                tx.execute(update(feedback).where(same_row).values(status=status))
        return self.get_entry(project_id, entry_id)

    def count_by_page(
        self, project_id: str, filter_by: FeedbackFilter = ALL_FEEDBACK, limit: int = 50, offset: int = 0
    ) -> tuple[list[PageFeedback], bool]:
        """Returns pages by number of entries, most first, then by path in code point order; and whether there are
        more."""
        path = feedback.c.path
        total = func.count().label("total")
        sums = select(
            path,
            _count_if(feedback.c.helpful.is_(True)).label("thumbs_up"),
            _count_if(feedback.c.helpful.is_(False)).label("thumbs_down"),
            _count_if(feedback.c.source == FeedbackSource.CODE_SNIPPET).label("code"),
            func.count(feedback.c.comment).label("comments"),
            total,
        )
        by_code_point = path if self.database.is_sqlite else path.collate("C")
        query = sums.where(*filter_by.build_conditions(project_id)).group_by(path)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(total.desc(), by_code_point).limit(limit + 1).offset(offset))
            pages = [PageFeedback(**row._mapping) for row in rows]
        return pages[:limit], len(pages) > limit

    def _add(self, tx: Connection, project_id: str, new: NewFeedback) -> bool:
        consume(self.database, tx, self._daily_limit, project_id)  # also serializes the additions of a project
        if new.event is not None:
            same_event = (feedback.c.project_id == project_id) & (feedback.c.event == new.event)
            if tx.execute(select(feedback.c.id).where(same_event)).first() is not None:
                return False
        row = {**vars(new.entry), "visitor": new.visitor, "event": new.event}
        tx.execute(insert(feedback).values(project_id=project_id, **row))
        entry = new.entry
        record_event(self.database, tx, project_id, EventType.FEEDBACK_CREATED, entry.id, lambda: describe_entry(entry))
        return True

    def _forget_rows(self, tx: Connection, condition: ColumnElement[bool]) -> None:
        """Deletes the webhook events about entries that are deleted, since they repeat their texts."""
        delete_events_about(tx, select(feedback.c.id).where(condition))


def describe_entry(entry: FeedbackEntry) -> dict[str, Any]:
    """Returns the entry as webhooks contain it: without the contact, which is the reader's personal data."""
    return {
        "feedback": {
            "id": entry.id,
            "path": entry.path,
            "helpful": entry.helpful,
            "comment": entry.comment,
            "source": entry.source.value,
            "code": entry.code,
            "filename": entry.filename,
            "lang": entry.lang,
            "createdAt": format_iso(entry.created_at),
        }
    }


def build_entry(
    path: str, helpful: bool | None, comment: str | None, created_at: int, details: FeedbackDetails
) -> FeedbackEntry:
    """Returns a new entry with cleaned texts. Raises InvalidRequest, which names the invalid field."""
    comment_text = clean_optional(comment, "comment", MAX_COMMENT_CHARS)
    code = clean_optional(details.code, "code", MAX_CODE_CHARS)
    if helpful is None and not comment_text and not code:
        raise invalid_field("helpful", "Say whether the page was helpful, or leave a comment.")
    return FeedbackEntry(
        id=new_id("fb"),
        path=validate_path(path),
        helpful=helpful,
        comment=comment_text,
        created_at=created_at,
        source=_find_source(code, comment_text, details),
        status=FeedbackStatus.PENDING,
        contact=clean_optional(details.contact, "contact", MAX_CONTACT_CHARS),
        code=code,
        filename=clean_optional(details.filename, "filename", MAX_FILENAME_CHARS),
        lang=clean_optional(details.lang, "lang", MAX_LANG_CHARS),
    )


def _find_source(code: str | None, comment: str | None, details: FeedbackDetails) -> FeedbackSource:
    """Returns the source that was sent, except that feedback is about a code snippet if, and only if, it has code."""
    if code:
        return FeedbackSource.CODE_SNIPPET
    if details.source is not None and details.source is not FeedbackSource.CODE_SNIPPET:
        return details.source
    return FeedbackSource.CONTEXTUAL if comment or details.contact else FeedbackSource.THUMBS_ONLY


def _entry_from_row(row: Row[Any]) -> FeedbackEntry:
    enums = {"source": FeedbackSource(row.source), "status": FeedbackStatus(row.status)}
    return FeedbackEntry(**{**row._asdict(), **enums})


def _count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
