"""Deletes the jobs of a project, and finds deleted projects whose page views must still be deleted."""

from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import audit, projects
from copydesk.jobs.storage.records import QUEUE_TOPIC, STOP_TOPIC
from copydesk.jobs.storage.tables import (
    events,
    idempotency,
    job_files,
    jobs,
    messages,
    pulls,
    runs,
    steps,
    webhook_deliveries,
)

DELETED_ACTION, PURGED_ACTION = "project.deleted", "project.purged"
PURGE_ACTOR = "copydesk"
SETTLING_MS = 60 * clock.SECOND
"""How long after its deletion a project may still get page views, from servers that have cached its site."""
MAX_PENDING_DAYS = 30


class PendingPurge(NamedTuple):
    project_id: str
    deleted_at: int

    @property
    def is_settled(self) -> bool:
        """Returns whether no server can accept page views for the project anymore."""
        return clock.now() - self.deleted_at >= SETTLING_MS


def delete_project_jobs(database: Database, tx: Connection, project_id: str) -> None:
    """Deletes the project's jobs and pull requests. A worker that runs one of the jobs finds its lease lost and stops.

    Locks the jobs before the project, as every other transaction does.
    """
    job_ids = select(jobs.c.id).where(jobs.c.project_id == project_id)
    if not database.is_sqlite:
        tx.execute(job_ids.order_by(jobs.c.id).with_for_update())
        tx.execute(select(projects.c.id).where(projects.c.id == project_id).with_for_update())
    with database.without_statement_timeout(tx):
        tx.execute(delete(steps).where(steps.c.run_id.in_(select(runs.c.id).where(runs.c.project_id == project_id))))
        for table in (events, messages, job_files):
            tx.execute(delete(table).where(table.c.job_id.in_(job_ids)))
        for table in (pulls, runs, idempotency, webhook_deliveries, jobs):
            tx.execute(delete(table).where(table.c.project_id == project_id))
    for topic in (STOP_TOPIC, QUEUE_TOPIC):
        database.notify(tx, topic)


def list_pending_purges(database: Database) -> list[PendingPurge]:
    """Returns the deleted projects whose page views are not known to be deleted. The audit log says which ones."""
    query = select(audit.c.subject, audit.c.action, audit.c.at).where(
        audit.c.project_id == audit_log.NO_PROJECT,
        audit.c.action.in_((DELETED_ACTION, PURGED_ACTION)),
        audit.c.at >= clock.now() - MAX_PENDING_DAYS * clock.DAY,
    )
    with database.read() as tx:
        entries = tx.execute(query).all()
    purged = {entry.subject for entry in entries if entry.action == PURGED_ACTION}
    deleted = [entry for entry in entries if entry.action == DELETED_ACTION and entry.subject not in purged]
    return [PendingPurge(entry.subject, entry.at) for entry in deleted]


def record_purge(database: Database, project_id: str) -> None:
    with database.write() as tx:
        audit_log.record(tx, audit_log.NO_PROJECT, PURGE_ACTOR, PURGED_ACTION, project_id)
