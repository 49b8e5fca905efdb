"""Finds and deletes the rows of a project in all tables, so that no new table can be forgotten."""

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from copydesk.core.db.tables import audit, limits, metadata, projects

KEPT_TABLES = (audit,)
"""The audit log is kept, because it says who deleted the project."""


def delete_project_rows(tx: Connection, project_id: str) -> bool:
    """Deletes a project and every row that belongs to it. Returns False if there is no such project.

    A table belongs to projects if it has a column `project_id`, or a foreign key to such a table. It is found only if
    its module was imported.
    """
    for table in reversed(metadata.sorted_tables):  # rows before those that they refer to
        condition = _build_condition(table, project_id)
        if condition is not None and table not in KEPT_TABLES:
            tx.execute(delete(table).where(condition))
    return bool(tx.execute(delete(projects).where(projects.c.id == project_id)).rowcount)


def delete_rate_limits(tx: Connection, project_id: str) -> None:
    """Deletes the rate limits of a deleted project.

    Use a transaction of its own: a request that creates something locks a rate limit before or after the project, so
    that a transaction that locks both could deadlock with it.
    """
    tx.execute(delete(limits).where(limits.c.bucket.endswith(f":{project_id}", autoescape=True)))


def _build_condition(table: Table, project_id: str) -> ColumnElement[bool] | None:
    """Returns the condition for the rows of a project; None means that the table has none."""
    if "project_id" in table.c:
        return table.c.project_id == project_id
    for key in table.foreign_keys:
        parent_condition = _build_condition(key.column.table, project_id)
        if parent_condition is not None:
            return key.parent.in_(select(key.column).where(parent_condition))
    return None
