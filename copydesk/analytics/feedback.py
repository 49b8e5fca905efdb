"""Readers' feedback on pages: whether a page helped, and a comment.

Stored in the main database, because its volume is small.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, delete, func, insert, select

from copydesk.analytics.feedback_quota import FeedbackQuota
from copydesk.analytics.page_paths import MAX_PATH_BYTES
from copydesk.analytics.stores.base import ALL_DAYS, DayRange
from copydesk.analytics.tables import feedback
from copydesk.core.clock import DAY
from copydesk.core.db.database import Database
from copydesk.core.errors import ErrorDetail, InvalidRequest
from copydesk.core.ids import new_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.rate_limits.limits import RateLimit, consume

MAX_COMMENT_CHARS = 4_000


@dataclass(frozen=True)
class FeedbackEntry:
    id: str
    path: str
    helpful: bool | None
    comment: str | None
    created_at: int


@dataclass(frozen=True)
class PageFeedback:
    path: str
    helpful: int
    unhelpful: int
    comments: int
    total: int


class Feedback:
    def __init__(self, database: Database, quota: FeedbackQuota, max_per_day: int) -> None:
        self.database = database
        self._quota = quota
        self._daily_limit = RateLimit("feedback-project", max_per_day, DAY)

    def add(
        self, project_id: str, path: str, helpful: bool | None, comment: str | None, created_at: int
    ) -> FeedbackEntry:
        """Stores an entry, durable on return.

        Removes control characters from the comment, but keeps its line breaks.
        """
        comment_text = _clean_text(comment or "")
        if helpful is None and not comment_text:
            raise _invalid_field("helpful", "Say whether the page was helpful, or leave a comment.")
        if len(comment_text) > MAX_COMMENT_CHARS:
            raise _invalid_field("comment", f"A comment can have at most {MAX_COMMENT_CHARS:,} characters.")
        page_path = _clean_text(path).replace("\n", "").replace("\t", "")
        if not page_path.startswith("/") or len(page_path.encode()) > MAX_PATH_BYTES:
            raise _invalid_field("path", f"A path must start with / and have at most {MAX_PATH_BYTES:,} bytes.")
        entry = FeedbackEntry(new_id("fb"), page_path, helpful, comment_text or None, created_at)
        self._quota.reserve(project_id, len(page_path.encode()) + len(comment_text.encode()))
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                consume(self.database, tx, self._daily_limit, project_id)
                tx.execute(insert(feedback).values(project_id=project_id, **vars(entry)))
        except BaseException:
            self._quota.invalidate(project_id)  # the quota counted an entry that was not stored
            raise
        return entry

    def list_entries(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, cursor: str | None = None
    ) -> tuple[list[FeedbackEntry], str | None]:
        """Returns entries, newest first, and the cursor of the next page (None on the last page)."""
        columns = (feedback.c[name] for name in FeedbackEntry.__dataclass_fields__)
        query = (
            select(*columns).where(*_build_conditions(project_id, days)).order_by(feedback.c.id.desc()).limit(limit + 1)
        )
        if cursor is not None:
            query = query.where(feedback.c.id < cursor)
        with self.database.read() as tx:
            entries = [FeedbackEntry(**row._mapping) for row in tx.execute(query)]
        return entries[:limit], entries[limit - 1].id if len(entries) > limit else None

    def count_by_page(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[list[PageFeedback], bool]:
        """Returns pages by number of entries, most first, then by path in code point order; and whether there are
        more."""
        path = feedback.c.path
        total = func.count().label("total")
        sums = select(
            path,
            func.sum(case((feedback.c.helpful.is_(True), 1), else_=0)).label("helpful"),
            func.sum(case((feedback.c.helpful.is_(False), 1), else_=0)).label("unhelpful"),
            func.count(feedback.c.comment).label("comments"),
            total,
        )
        by_code_point = path if self.database.is_sqlite else path.collate("C")
        query = sums.where(*_build_conditions(project_id, days)).group_by(path).order_by(total.desc(), by_code_point)
        with self.database.read() as tx:
            rows = tx.execute(query.limit(limit + 1).offset(offset))
            pages = [PageFeedback(**row._mapping) for row in rows]
        return pages[:limit], len(pages) > limit

    def delete_entries(self, project_id: str, days: DayRange = ALL_DAYS) -> int:
        """Deletes a project's entries of these days. Returns how many it deleted."""
        with self.database.write() as tx:
            deleted = tx.execute(delete(feedback).where(*_build_conditions(project_id, days))).rowcount
        self._quota.invalidate(project_id)
        return deleted

    def delete_expired(self, retention_days: Mapping[str, int | None], today: int) -> int:
        """Deletes entries that are older than their project's retention; None retains them forever.

        Returns how many.
        """
        deleted = 0
        for project_id, max_age_days in retention_days.items():
            oldest_at = self._find_oldest_time(project_id) if max_age_days is not None else None
            if max_age_days is not None and oldest_at is not None and oldest_at < (today - max_age_days) * DAY:
                deleted += self.delete_entries(project_id, DayRange(end=today - max_age_days))
        return deleted

    def _find_oldest_time(self, project_id: str) -> int | None:
        """Returns when the first entry was created. Ids sort by time, so the index on ids answers this."""
        query = select(feedback.c.created_at).where(feedback.c.project_id == project_id)
        with self.database.read() as tx:
            return tx.execute(query.order_by(feedback.c.id).limit(1)).scalar()


def _build_conditions(project_id: str, days: DayRange) -> list[ColumnElement[bool]]:
    conditions = [feedback.c.project_id == project_id]
    if days != ALL_DAYS:
        conditions += [feedback.c.created_at >= days.first * DAY, feedback.c.created_at < days.end * DAY]
    return conditions


def _clean_text(text: str) -> str:
    """Removes control characters, except line breaks and tabs, and lone surrogates."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()


def _invalid_field(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, details=[ErrorDetail(field, message)])
