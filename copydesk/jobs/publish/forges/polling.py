"""Notices pull requests that were merged or closed on a forge that cannot reach us."""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import Explained
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import COMPLETED, FAILED
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.markers import number_of
from copydesk.jobs.publish.forges.registry import REMOTE, credentials_of, forge_for
from copydesk.jobs.service import archive
from copydesk.jobs.storage.records import locked
from copydesk.jobs.storage.tables import jobs

T = TypeVar("T")
log = logging.getLogger(__name__)

MOST_CALLS = 30
ROUND = 5 * 60 * clock.SECOND


class AllSecrets(Protocol):
    def all(self, project_id: str) -> Mapping[str, str]: ...


def notice_ends(database: Database, projects: Sequence[Project], secrets: AllSecrets) -> None:
    """One round over all projects on remote forges. One that cannot be asked is left for the next round."""
    for project in projects:
        waiting = _waiting(database, project) if project.forge in REMOTE else []
        if not waiting:
            continue
        try:
            forge = forge_for(project, credentials_of(project, secrets.all(project.id)))
            try:
                archive_ended(database, forge, waiting)
            finally:
                forge.end()
        except Exception as failure:  # whatever is wrong with one forge, the others go on
            log_unnoticed(project.id, failure)


def log_unnoticed(project_id: str, failure: Exception) -> None:
    is_bug = not isinstance(failure, Explained)
    log.warning("merges in project %s cannot be noticed: %s", project_id, failure, exc_info=is_bug)


def archive_ended(database: Database, forge: Forge, waiting: Sequence[tuple[str, int]]) -> None:
    """Asks about a bounded number of pull requests."""
    for job_id, number in turn(waiting, clock.now()):
        try:
            is_over = forge.get(number).state != "open"
        except ForgeRefused as refusal:
            if refusal.status != 404:
                raise
            continue  # a repository out of sight looks the same as a pull request that is gone
        if is_over:
            archive_job(database, job_id)


def turn(waiting: Sequence[T], at: int) -> Sequence[T]:
    """Those whose turn it is: of more than one round can take, each comes up in some later one."""
    start = at // ROUND * MOST_CALLS % len(waiting) if len(waiting) > MOST_CALLS else 0
    return [*waiting[start:], *waiting[:start]][:MOST_CALLS]


def archive_job(database: Database, job_id: str) -> bool:
    """False when somebody has set it to work again meanwhile."""
    with database.write() as tx:
        job = locked(database, tx, job_id)
        if job is None or job.status not in (COMPLETED, FAILED):
            return False
        archive(database, tx, job)
        return True


def _waiting(database: Database, project: Project) -> list[tuple[str, int]]:
    """Finished jobs with a pull request on the project's forge, and its number."""
    wanted = (
        select(jobs.c.id, jobs.c.pr_link)
        .where(jobs.c.project_id == project.id, jobs.c.status.in_((COMPLETED, FAILED)))
        .where(jobs.c.pr_link.is_not(None), jobs.c.repository == project.repository)
        .order_by(jobs.c.id)
    )
    with database.read() as tx:
        found = [(row.id, number_of(row.pr_link)) for row in tx.execute(wanted)]
    return [(job_id, number) for job_id, number in found if number is not None]
