"""What readers say of a page: whether it helped, and a comment. Kept with the projects, since it is little."""

import unicodedata
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, case, delete, func, insert, select

from copydesk.analytics.paths import LONGEST_PATH
from copydesk.analytics.store import ALWAYS, Range
from copydesk.analytics.tables import feedback
from copydesk.core.clock import DAY
from copydesk.core.database import Database
from copydesk.core.errors import Detail, InvalidRequest
from copydesk.core.ids import new_id

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
    def __init__(self, database: Database) -> None:
        self.database = database

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
        with self.database.write() as tx:
            tx.execute(insert(feedback).values(project_id=project_id, **vars(remark)))
        return remark

    def page(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, cursor: str | None = None
    ) -> tuple[list[Remark], str | None]:
        """Newest first, and where the next page begins."""
        columns = (feedback.c[name] for name in Remark.__dataclass_fields__)
        wanted = _within(select(*columns), project_id, days).order_by(feedback.c.id.desc()).limit(limit + 1)
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
        wanted = _within(sums, project_id, days).group_by(path).order_by(total.desc(), by_code_point)
        with self.database.read() as tx:
            rows = tx.execute(wanted.limit(limit + 1).offset(offset))
            found = [PageRemarks(**row._mapping) for row in rows]
        return found[:limit], len(found) > limit

    def forget(self, project_id: str) -> int:
        """Drops all of a project; how much there was."""
        with self.database.write() as tx:
            return tx.execute(delete(feedback).where(feedback.c.project_id == project_id)).rowcount


def _within(wanted: Select[Any], project_id: str, days: Range) -> Select[Any]:
    wanted = wanted.where(feedback.c.project_id == project_id)
    if days == ALWAYS:
        return wanted
    return wanted.where(feedback.c.created_at >= days.first * DAY, feedback.c.created_at < days.end * DAY)


def _text(given: str) -> str:
    """Without control characters other than ends of lines and tabs, and without what is no character at all."""
    lines = given.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, details=[Detail(field, message)])
