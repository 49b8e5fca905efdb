"""Who changed which key or project, and when. Written in the transaction of the change itself."""

from typing import Any

from sqlalchemy import Connection, select

from copydesk.core import clock
from copydesk.core.database import Database
from copydesk.core.ids import new_id
from copydesk.core.tables import audit


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


def entries(database: Database, project_id: str, most: int = 100) -> list[dict[str, Any]]:
    """Newest first."""
    wanted = select(audit).where(audit.c.project_id == project_id).order_by(audit.c.id.desc()).limit(most)
    with database.read() as tx:
        return [dict(row._mapping) for row in tx.execute(wanted)]
