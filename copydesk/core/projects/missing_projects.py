"""Turns a write for a project that was deleted meanwhile into ProjectNotFound."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import ProjectNotFound


@contextmanager
def refuse_missing_project(database: Database, project_id: str) -> Iterator[None]:
    """Raises ProjectNotFound instead of IntegrityError if the project does not exist.

    The foreign keys keep such a row out. Costs nothing while the project exists. Enclose the transaction, not the
    statement, because a failed transaction cannot read.
    """
    try:
        yield
    except IntegrityError:
        with database.write() as tx:  # the deletion may be part of a group that is not committed yet
            if tx.execute(select(projects.c.id).where(projects.c.id == project_id)).first() is None:
                raise ProjectNotFound from None
        raise
