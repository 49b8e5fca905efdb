"""Stops the jobs of a project that is deleted, and finds deleted projects whose page views must still be deleted."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import audit, projects
from copydesk.jobs.storage.records import QUEUE_TOPIC, STOP_TOPIC
from copydesk.jobs.storage.tables import jobs

DELETED_ACTION, PURGED_ACTION = "project.deleted", "project.purged"
PURGE_ACTOR = "copydesk"
SETTLING_MS = 30 * 60 * clock.SECOND
"""How long after its deletion a project may still have page views: those from servers that have cached its site, and
those in partitions of ClickHouse's inbox, which can be dropped only when no process writes to them anymore."""
MAX_PENDING_DAYS = 365
"""How long a worker tries to delete the page views of a deleted project, while the analytics store is unavailable."""


class PendingPurge(NamedTuple):
    project_id: str
    deleted_at: int

    @property
    def is_settled(self) -> bool:
        """Returns whether all page views of the project can be deleted now, and no more can arrive."""
        return clock.now() - self.deleted_at >= SETTLING_MS


def lock_project_and_stop_jobs(database: Database, tx: Connection, project_id: str) -> None:
    """Locks the project for its deletion. The workers that run one of its jobs find its lease lost and stop.

    Locks the jobs before the project, as every other transaction does. A transaction that creates a job of the project
    holds a lock on the project, so that the deletion waits for it and deletes this job, too.
    """
    tx.execute(select(jobs.c.id).where(jobs.c.project_id == project_id).order_by(jobs.c.id).with_for_update())
    tx.execute(select(projects.c.id).where(projects.c.id == project_id).with_for_update())
    for topic in (STOP_TOPIC, QUEUE_TOPIC):
        database.notify(tx, topic)


def list_pending_purges(database: Database) -> list[PendingPurge]:
    """Returns the deleted projects whose page views are not known to be deleted. The audit log says which ones."""
    query = select(audit.c.subject, audit.c.action, audit.c.at).where(
        audit.c.project_id == audit_log.NO_PROJECT,
        audit.c.action.in_((DELETED_ACTION, PURGED_ACTION)),
        audit.c.subject.not_in(select(projects.c.id)),
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
