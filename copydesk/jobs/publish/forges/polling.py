"""Polls forges for merged and closed pull requests and for comments, in case their webhooks do not reach us."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from sqlalchemy import select, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import COMPLETED, FAILED, PullState
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Forge, PullRequest
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, SecretsReader, open_forge
from copydesk.jobs.publish.forges.review_reminder import ReviewReminder
from copydesk.jobs.publish.forges.webhooks.receiver import WebhookReceiver
from copydesk.jobs.storage.records import archive_job, get_job_for_update
from copydesk.jobs.storage.tables import comment_marks, jobs

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_CALLS_PER_ROUND = 30
ROUND_MILLISECONDS = 5 * 60 * clock.SECOND
LOOK_BACK_MILLISECONDS = clock.DAY
"""How old a comment may be when the comments of a job are read for the first time."""
SETTLING_MILLISECONDS = 5 * clock.SECOND


class FinishedJob(NamedTuple):
    """A finished job and its pull request. The number may belong to another branch in a recreated repository."""

    id: str
    number: int
    branch: str


def archive_closed_pulls(
    database: Database,
    projects: Sequence[Project],
    secrets: SecretsReader,
    receiver: WebhookReceiver | None = None,
    reminder: ReviewReminder | None = None,
) -> None:
    """Archives finished jobs whose pull requests were merged or closed. Retries failed projects in the next round.

    With a receiver, also reads new comments on the others, because a webhook may have been missed. With a reminder,
    mentions those that wait for a review for long.
    """
    for project in projects:
        candidates = _list_finished_jobs(database, project) if project.forge in REMOTE_FORGES else []
        if not candidates:
            continue
        try:
            with open_forge(project, secrets.all(project.id)) as forge:
                checks: list[Callable[[str, PullRequest], None]] = []
                if receiver is not None:
                    checks.append(partial(_read_new_comments, database, receiver, project, forge))
                if reminder is not None:
                    checks.append(partial(reminder.check_pull, forge))
                archive_if_closed(database, forge, candidates, checks)
        except Exception as failure:  # an error of one forge must not stop the others
            log_polling_failure(project.id, failure)


def log_polling_failure(project_id: str, failure: Exception) -> None:
    is_bug = not isinstance(failure, UserFacingError)
    log.warning("cannot check for closed pull requests in project %s: %s", project_id, failure, exc_info=is_bug)


def archive_if_closed(
    database: Database,
    forge: Forge,
    candidates: Sequence[FinishedJob],
    open_checks: Sequence[Callable[[str, PullRequest], None]] = (),
) -> None:
    """Archives the jobs whose pull requests are closed. Checks at most MAX_CALLS_PER_ROUND of them.

    `open_checks` are called with each job and its open pull request.
    """
    for job in next_batch(candidates, clock.now()):
        try:
            pull = forge.get_pull(job.number)
        except ForgeRefused as refusal:
            if refusal.status != 404:
                raise
            continue  # the pull request may be deleted, or the repository hidden from the token
        if pull.branch != job.branch:
            continue  # the repository was recreated, and the number belongs to another pull request now
        if pull.state != "open":
            _archive_if_finished(database, job.id, pull.state)
            continue
        for check in open_checks:
            try:
                check(job.id, pull)
            except ForgeRefused as refusal:  # a token that cannot read comments can still see what was closed
                log.warning("cannot read the comments on pull request %d of job %s: %s", job.number, job.id, refusal)


def _read_new_comments(
    database: Database, receiver: WebhookReceiver, project: Project, forge: Forge, job_id: str, pull: PullRequest
) -> None:
    """Handles mentions that no webhook brought, if the pull request has changed since its comments were last read.

    Times are the forge's. They are rounded to the second, so the newest second is read once more.
    """
    if pull.updated_at is None:
        return
    with database.read() as tx:
        seen_until = tx.execute(
            select(comment_marks.c.seen_until).where(comment_marks.c.job_id == job_id)
        ).scalar_one_or_none()
    if seen_until is not None and pull.updated_at <= seen_until:
        return
    job = receiver.jobs.get(project.id, job_id)
    since = max(job.created_at, clock.now() - LOOK_BACK_MILLISECONDS) if seen_until is None else seen_until
    receiver.read_comments(project, job, pull.number, forge, since - clock.SECOND)
    mark = {"job_id": job_id, "seen_until": min(pull.updated_at, clock.now() - SETTLING_MILLISECONDS)}
    with database.write() as tx:
        if not insert_if_absent(tx, comment_marks, mark):
            tx.execute(update(comment_marks).where(comment_marks.c.job_id == job_id).values(mark))


def next_batch(candidates: Sequence[T], at: int) -> Sequence[T]:
    """Returns at most MAX_CALLS_PER_ROUND candidates. The window moves with the clock, so that each one gets a turn."""
    start = (
        at // ROUND_MILLISECONDS * MAX_CALLS_PER_ROUND % len(candidates) if len(candidates) > MAX_CALLS_PER_ROUND else 0
    )
    return [*candidates[start:], *candidates[:start]][:MAX_CALLS_PER_ROUND]


def _archive_if_finished(database: Database, job_id: str, pull_state: PullState) -> bool:
    """Archives a finished job. Returns False if it is active again or already archived."""
    with database.write() as tx:
        job = get_job_for_update(tx, job_id)
        if job is None or job.status not in (COMPLETED, FAILED):
            return False
        archive_job(database, tx, job, pull_state)
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
