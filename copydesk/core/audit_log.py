"""The audit log: who changed which key, project or person, and when. The transaction of a change writes its entry."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, tuple_

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import audit
from copydesk.core.errors import InvalidRequest
from copydesk.core.ids import is_id, new_id

NO_PROJECT = ""
"""The project id of entries that belong to no project."""
MAX_ENTRIES_SCANNED = 5000


def record(tx: Connection, project_id: str, actor: str, action: str, subject: str, **details: Any) -> None:
    tx.execute(
        audit.insert().values(
            id=new_id("audit"),
            project_id=project_id,
            at=clock.now(),
            actor=actor,
            action=action,
            subject=subject,
            details=details,
        )
    )


def list_entries(
    database: Database, project_id: str, limit: int = 100, *, before: str = "", action: str = "", actor: str = ""
) -> list[dict[str, Any]]:
    """Returns entries, newest first. Filters by cursor, action and actor where these are not empty."""
    query = select(audit).where(audit.c.project_id == project_id, *_build_filters(before, action, actor))
    with database.read() as tx:
        rows = tx.execute(query.order_by(audit.c.at.desc(), audit.c.id.desc()).limit(limit))
        return [dict(row._mapping) for row in rows]


def encode_cursor(entry: Mapping[str, Any]) -> str:
    """Returns the cursor after this entry. The next page starts there, regardless of entries written since."""
    return f"{entry['at']}.{entry['id']}"


def list_actions_and_actors(database: Database, project_id: str) -> tuple[list[str], list[str]]:
    """Returns the distinct actions and actors of the newest entries, as choices for filters.

    Reads at most MAX_ENTRIES_SCANNED entries, since the log may be long.
    """
    query = select(audit.c.action, audit.c.actor).where(audit.c.project_id == project_id)
    newest = query.order_by(audit.c.at.desc(), audit.c.id.desc()).limit(MAX_ENTRIES_SCANNED).subquery()
    with database.read() as tx:
        pairs = tx.execute(select(newest.c.action, newest.c.actor).distinct()).all()
    return sorted({action for action, _ in pairs}), sorted({actor for _, actor in pairs})


def _build_filters(before: str, action: str, actor: str) -> list[ColumnElement[bool]]:
    filters = []
    if before:
        at, _, entry_id = before.partition(".")
        if not (at.isascii() and at.isdigit() and len(at) < 16 and is_id(entry_id, "audit")):
            raise InvalidRequest("This audit log cursor is invalid. Go back to the first page.")
        filters.append(tuple_(audit.c.at, audit.c.id) < tuple_(int(at), entry_id))
    if action:
        filters.append(audit.c.action == action)
    if actor:
        filters.append(audit.c.actor == actor)
    return filters
