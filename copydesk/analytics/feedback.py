"""What readers say of a page: whether it helped, and a comment. Kept with the projects, since it is little."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, delete, func, insert, select

from copydesk.analytics.feedback_quota import FeedbackQuota
from copydesk.analytics.page_paths import LONGEST_PATH
from copydesk.analytics.stores.base import ALWAYS, Range
from copydesk.analytics.tables import feedback
from copydesk.core.clock import DAY
from copydesk.core.db.database import Database
from copydesk.core.errors import Detail, InvalidRequest
from copydesk.core.ids import new_id
from copydesk.core.rate_limits.limits import Limit, take

LONGEST_COMMENT = 4_000


@dataclass(frozen=True)
class Remark:
    id: str
    path: str
    helpful: bool | None
    comment: str | None
    created_at: int


@dataclass(frozen=True)
class PageRemarks:
    path: str
    helpful: int
    unhelpful: int
    comments: int
    total: int


class Feedback:
    def __init__(self, database: Database, quota: FeedbackQuota, per_day: int) -> None:
        self.database, self._quota = database, quota
        self._per_day = Limit("feedback-project", per_day, DAY)

    def add(self, project_id: str, path: str, helpful: bool | None, comment: str | None, at: int) -> Remark:
        """Durable on return. A comment keeps its lines and loses what is no text."""
        said = _text(comment or "")
        if helpful is None and not said:
            raise _refused("helpful", "Say whether the page was helpful, or leave a comment.")
        if len(said) > LONGEST_COMMENT:
            raise _refused("comment", f"A comment has at most {LONGEST_COMMENT:,} characters.")
        page = _text(path).replace("\n", "").replace("\t", "")
        if not page.startswith("/") or len(page.encode()) > LONGEST_PATH:
            raise _refused("path", f"A path begins with / and has at most {LONGEST_PATH:,} bytes.")
        remark = Remark(new_id("fb"), page, helpful, said or None, at)
        self._quota.reserve(project_id, len(page.encode()) + len(said.encode()))
        try:
            with self.database.write() as tx:
                take(self.database, tx, self._per_day, project_id)
                tx.execute(insert(feedback).values(project_id=project_id, **vars(remark)))
        except BaseException:
            self._quota.forget(project_id)  # the entry was counted, and is not stored
            raise
        return remark

    def page(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, cursor: str | None = None
    ) -> tuple[list[Remark], str | None]:
        """Newest first, and where the next page begins."""
        columns = (feedback.c[name] for name in Remark.__dataclass_fields__)
        wanted = select(*columns).where(*_within(project_id, days)).order_by(feedback.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            wanted = wanted.where(feedback.c.id < cursor)
        with self.database.read() as tx:
            found = [Remark(**row._mapping) for row in tx.execute(wanted)]
        return found[:limit], found[limit - 1].id if len(found) > limit else None

    def by_page(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0
    ) -> tuple[list[PageRemarks], bool]:
        """Most first, then by path in the order of code points; and whether there are more."""
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
        wanted = sums.where(*_within(project_id, days)).group_by(path).order_by(total.desc(), by_code_point)
        with self.database.read() as tx:
            rows = tx.execute(wanted.limit(limit + 1).offset(offset))
            found = [PageRemarks(**row._mapping) for row in rows]
        return found[:limit], len(found) > limit

    def forget(self, project_id: str, days: Range = ALWAYS) -> int:
        """Deletes what a project has of these days. Returns how many entries that were."""
        with self.database.write() as tx:
            deleted = tx.execute(delete(feedback).where(*_within(project_id, days))).rowcount
        self._quota.forget(project_id)
        return deleted

    def drop_old(self, days_kept: Mapping[str, int | None], today: int) -> int:
        """Deletes entries that are older than their project keeps them. Returns how many that were."""
        deleted = 0
        for project_id, days in days_kept.items():
            oldest = self._oldest(project_id) if days is not None else None
            if days is not None and oldest is not None and oldest < (today - days) * DAY:
                deleted += self.forget(project_id, Range(end=today - days))
        return deleted

    def _oldest(self, project_id: str) -> int | None:
        """Returns when the first entry was created, by the index: ids are in the order of time."""
        mine = select(feedback.c.created_at).where(feedback.c.project_id == project_id)
        with self.database.read() as tx:
            return tx.execute(mine.order_by(feedback.c.id).limit(1)).scalar()


def _within(project_id: str, days: Range) -> list[ColumnElement[bool]]:
    conditions = [feedback.c.project_id == project_id]
    if days != ALWAYS:
        conditions += [feedback.c.created_at >= days.first * DAY, feedback.c.created_at < days.end * DAY]
    return conditions


def _text(given: str) -> str:
    """Without control characters other than ends of lines and tabs, and without what is no character at all."""
    lines = given.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, details=[Detail(field, message)])
