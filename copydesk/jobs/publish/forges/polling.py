"""Polls forges for merged and closed pull requests, for forges whose webhooks cannot reach us."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import COMPLETED, FAILED
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, open_forge
from copydesk.jobs.service import archive_job
from copydesk.jobs.storage.records import get_job_for_update
from copydesk.jobs.storage.tables import jobs

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_CALLS_PER_ROUND = 30
ROUND_MILLISECONDS = 5 * 60 * clock.SECOND


class FinishedJob(NamedTuple):
    """A finished job and its pull request. The number may belong to another branch in a recreated repository."""

    id: str
    number: int
    branch: str


class SecretsReader(Protocol):
    def all(self, project_id: str) -> Mapping[str, str]: ...


def archive_closed_pulls(database: Database, projects: Sequence[Project], secrets: SecretsReader) -> None:
    """Archives finished jobs whose pull requests were merged or closed. Retries failed projects in the next round."""
    for project in projects:
        candidates = _list_finished_jobs(database, project) if project.forge in REMOTE_FORGES else []
        if not candidates:
            continue
        try:
            with open_forge(project, secrets.all(project.id)) as forge:
                archive_if_closed(database, forge, candidates)
        except Exception as failure:  # an error of one forge must not stop the others
            log_polling_failure(project.id, failure)


def log_polling_failure(project_id: str, failure: Exception) -> None:
    is_bug = not isinstance(failure, UserFacingError)
    log.warning("cannot check for closed pull requests in project %s: %s", project_id, failure, exc_info=is_bug)


def archive_if_closed(database: Database, forge: Forge, candidates: Sequence[FinishedJob]) -> None:
    """Archives the jobs whose pull requests are closed. Checks at most MAX_CALLS_PER_ROUND of them."""
    for job in next_batch(candidates, clock.now()):
        try:
            pull = forge.get_pull(job.number)
        except ForgeRefused as refusal:
            if refusal.status != 404:
                raise
            continue  # the pull request may be deleted, or the repository hidden from the token
        if pull.state != "open" and pull.branch == job.branch:
            _archive_if_finished(database, job.id)


def next_batch(candidates: Sequence[T], at: int) -> Sequence[T]:
    """Returns at most MAX_CALLS_PER_ROUND candidates. The window moves with the clock, so that each one gets a turn."""
    start = (
        at // ROUND_MILLISECONDS * MAX_CALLS_PER_ROUND % len(candidates) if len(candidates) > MAX_CALLS_PER_ROUND else 0
    )
    return [*candidates[start:], *candidates[:start]][:MAX_CALLS_PER_ROUND]


def _archive_if_finished(database: Database, job_id: str) -> bool:
    """Archives a finished job. Returns False if it is active again or already archived."""
    with database.write() as tx:
        job = get_job_for_update(database, tx, job_id)
        if job is None or job.status not in (COMPLETED, FAILED):
            return False
        archive_job(database, tx, job)
        return True


def _list_finished_jobs(database: Database, project: Project) -> list[FinishedJob]:
    """Returns the finished jobs that have pull requests in the project's repository."""
    query = (
        select(jobs.c.id, jobs.c.pr_link, jobs.c.branch)
        .where(jobs.c.project_id == project.id, jobs.c.status.in_((COMPLETED, FAILED)))
        .where(jobs.c.pr_link.is_not(None), jobs.c.repository == project.repository)
        .order_by(jobs.c.id)
    )
    with database.read() as tx:
        rows = tx.execute(query).all()
    numbers = [(row, parse_pull_number(row.pr_link)) for row in rows]
    return [FinishedJob(row.id, number, row.branch) for row, number in numbers if number is not None]
