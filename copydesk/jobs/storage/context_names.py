"""Checks the names of context repositories that a job asks for."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, select

from copydesk.core.db.database import Database
from copydesk.core.errors import InvalidRequest
from copydesk.jobs.storage.tables import context_repositories


def validate_context_names(database: Database, project_id: str, names: Sequence[str]) -> list[str]:
    """Returns the names without repetitions. Raises InvalidRequest for one that the project does not have."""
    with database.read() as tx:
        known = tx.execute(_select_names(project_id)).scalars().all()
    _refuse_unknown(names, known)
    return list(dict.fromkeys(names))


def lock_context_names(tx: Connection, project_id: str, names: Sequence[str]) -> None:
    """Keeps these context repositories until the transaction ends. Raises InvalidRequest like the function above."""
    _refuse_unknown(
        names, tx.execute(_select_names(project_id).with_for_update(read=True, key_share=True)).scalars().all()
    )


def _select_names(project_id: str) -> Select[Any]:
    query = select(context_repositories.c.name).where(context_repositories.c.project_id == project_id)
    return query.order_by(context_repositories.c.name)


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            hint = (
                f"It has {', '.join(known)}."
                if known
                else "It has none: add it first, with 'copydesk context add' or on the dashboard."
            )
            raise InvalidRequest(f"This project has no context repository '{name[:60]}'. {hint}")
