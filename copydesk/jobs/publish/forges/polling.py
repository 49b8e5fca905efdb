"""Notices pull requests that were merged or closed on a forge that cannot reach us."""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import COMPLETED, FAILED
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, create_forge, load_credentials
from copydesk.jobs.service import archive
from copydesk.jobs.storage.records import get_job_for_update
from copydesk.jobs.storage.tables import jobs

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_CALLS_PER_ROUND = 30
ROUND_MILLISECONDS = 5 * 60 * clock.SECOND


class SecretsReader(Protocol):
    def all(self, project_id: str) -> Mapping[str, str]: ...


def archive_closed_pulls(database: Database, projects: Sequence[Project], secrets: SecretsReader) -> None:
    """One round over all projects on remote forges. One that cannot be asked is left for the next round."""
    for project in projects:
        candidates = _list_finished_jobs(database, project) if project.forge in REMOTE_FORGES else []
        if not candidates:
            continue
        try:
            forge = create_forge(project, load_credentials(project, secrets.all(project.id)))
            try:
                archive_if_closed(database, forge, candidates)
            finally:
                forge.close()
        except Exception as failure:  # whatever is wrong with one forge, the others go on
            log_polling_failure(project.id, failure)


def log_polling_failure(project_id: str, failure: Exception) -> None:
    is_bug = not isinstance(failure, UserFacingError)
    log.warning("merges in project %s cannot be noticed: %s", project_id, failure, exc_info=is_bug)


def archive_if_closed(database: Database, forge: Forge, candidates: Sequence[tuple[str, int]]) -> None:
    """Asks about a bounded number of pull requests."""
    for job_id, number in next_batch(candidates, clock.now()):
        try:
            is_closed = forge.get_pull(number).state != "open"
        except ForgeRefused as refusal:
            if refusal.status != 404:
                raise
            continue  # a repository out of sight looks the same as a pull request that is gone
        if is_closed:
            archive_job(database, job_id)


def next_batch(candidates: Sequence[T], at: int) -> Sequence[T]:
    """Those whose turn it is: of more than one round can take, each comes up in some later one."""
    start = (
        at // ROUND_MILLISECONDS * MAX_CALLS_PER_ROUND % len(candidates) if len(candidates) > MAX_CALLS_PER_ROUND else 0
    )
    return [*candidates[start:], *candidates[:start]][:MAX_CALLS_PER_ROUND]


def archive_job(database: Database, job_id: str) -> bool:
    """False when somebody has set it to work again meanwhile."""
    with database.write() as tx:
        job = get_job_for_update(database, tx, job_id)
        if job is None or job.status not in (COMPLETED, FAILED):
            return False
        archive(database, tx, job)
        return True


def _list_finished_jobs(database: Database, project: Project) -> list[tuple[str, int]]:
    """Finished jobs with a pull request on the project's forge, and its number."""
    query = (
        select(jobs.c.id, jobs.c.pr_link)
        .where(jobs.c.project_id == project.id, jobs.c.status.in_((COMPLETED, FAILED)))
        .where(jobs.c.pr_link.is_not(None), jobs.c.repository == project.repository)
        .order_by(jobs.c.id)
    )
    with database.read() as tx:
        numbers = [(row.id, parse_pull_number(row.pr_link)) for row in tx.execute(query)]
    return [(job_id, number) for job_id, number in numbers if number is not None]
