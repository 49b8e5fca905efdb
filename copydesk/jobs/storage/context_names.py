"""Checks the names of context repositories that a job asks for."""

from collections.abc import Sequence

from sqlalchemy import select

from copydesk.core.db.database import Database
from copydesk.core.errors import InvalidRequest
from copydesk.jobs.storage.tables import context_repositories


def validate_context_names(database: Database, project_id: str, names: Sequence[str]) -> list[str]:
    """Returns the names without repetitions. Raises InvalidRequest for one that the project does not have."""
    query = select(context_repositories.c.name).where(context_repositories.c.project_id == project_id)
    with database.read() as tx:
        known = tx.execute(query.order_by(context_repositories.c.name)).scalars().all()
    for name in names:
        if name not in known:
            hint = (
                f"It has {', '.join(known)}."
                if known
                else "It has none: add it first, with 'copydesk context add' or on the dashboard."
            )
            raise InvalidRequest(f"This project has no context repository '{name[:60]}'. {hint}")
    return list(dict.fromkeys(names))
