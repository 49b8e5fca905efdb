"""Mentions a pull request of an automation that nobody touched for long: once, in a comment and on the dashboard."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.job import COMPLETED, FAILED
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Forge, PullRequest
from copydesk.jobs.publish.forges.markers import COMMENT_MARKER
from copydesk.jobs.publish.forges.unique_comments import add_comment_once
from copydesk.jobs.storage.records import SELECT_JOB
from copydesk.jobs.storage.review_waits import (
    ReviewWait,
    claim_mention,
    find_last_request,
    load_mentioned_waits,
    load_wait,
    mark_mentioned,
    save_wait,
)
from copydesk.jobs.storage.tables import jobs, pulls, review_waits

log = logging.getLogger(__name__)

OWN_CHANGE_MS = 15 * 60 * clock.SECOND
"""How long after a run or a mention a change of the pull request may still be Copydesk's own."""
CLAIM_MS = 10 * 60 * clock.SECOND
"""After this time, another process takes over a mention that was begun."""


@dataclass(frozen=True)
class ReviewReminder:
    database: Database
    days: int
    """0 means never."""

    def check_pull(self, forge: Forge, job_id: str, pull: PullRequest) -> None:
        """Records who touched an open pull request of an automation, and mentions it if that is too long ago."""
        if not self.days:
            return
        with self.database.read() as tx:
            job = tx.execute(SELECT_JOB, {"job": job_id}).first()
            if job is None or job.automation_id is None:
                return
            wait, requested_at = load_wait(tx, job_id), find_last_request(tx, job_id)
        if requested_at is None:
            return
        own_until = max(job.finished_at or 0, wait.own_change_at if wait else 0) + OWN_CHANGE_MS
        changed_at = pull.updated_at or 0
        since = self._save(job_id, wait, max(requested_at, changed_at if changed_at > own_until else 0))
        if (wait is None or wait.mentioned_at is None) and self._is_due(since):
            touched_at = _find_touch(forge, pull, job.head, since)
            if touched_at is not None:
                self._save(job_id, wait, touched_at)
            elif self._claim(job_id):
                text = render_mention((clock.now() - since) // clock.DAY)
                self._mention(forge, job_id, pull.number, text, job.created_at)

    def check_local_pulls(self) -> None:
        """Marks the pull requests on the local forge that wait for long. It has no comments."""
        if not self.days:
            return
        query = (
            select(jobs.c.id)
            .join(pulls, pulls.c.job_id == jobs.c.id)
            .outerjoin(review_waits, review_waits.c.job_id == jobs.c.id)
            .where(jobs.c.automation_id.is_not(None), jobs.c.status.in_((COMPLETED, FAILED)))
            .where(pulls.c.state == "open", review_waits.c.mentioned_at.is_(None))
            .where(pulls.c.created_at <= clock.now() - self._days_ms)
        )
        with self.database.read() as tx:
            requests = {job_id: find_last_request(tx, job_id) for job_id in tx.execute(query).scalars()}
        for job_id, requested_at in requests.items():
            if requested_at is not None and self._is_due(requested_at):
                with self.database.write() as tx:
                    save_wait(tx, job_id, requested_at)
                    mark_mentioned(tx, job_id, clock.now())

    def list_waiting_days(self, job_ids: Collection[str]) -> dict[str, int]:
        """Returns how many days the pull requests of these jobs wait for a review, for those that were mentioned."""
        if not self.days:
            return {}
        with self.database.read() as tx:
            waits = load_mentioned_waits(tx, job_ids)
        return {job_id: (clock.now() - since) // clock.DAY for job_id, since in waits.items() if self._is_due(since)}

    @property
    def _days_ms(self) -> int:
        return self.days * clock.DAY

    def _is_due(self, since: int) -> bool:
        return clock.now() - since >= self._days_ms

    def _save(self, job_id: str, wait: ReviewWait | None, touched_at: int) -> int:
        """Stores a later touch. Returns since when the pull request waits."""
        if wait is not None and touched_at <= wait.since:
            return wait.since
        with self.database.write() as tx:
            save_wait(tx, job_id, touched_at)
        return touched_at

    def _claim(self, job_id: str) -> bool:
        with self.database.write() as tx:
            return claim_mention(self.database, tx, job_id, CLAIM_MS)

    def _mention(self, forge: Forge, job_id: str, number: int, text: str, job_created_at: int) -> None:
        """Comments once, also if a process that claimed it before was killed. A refused comment is not repeated."""
        try:
            add_comment_once(forge, number, text, f"waiting {job_id}", since=job_created_at, may_exist=True)
        except ForgeRefused as refusal:
            log.warning("job %s: its pull request cannot be commented: %s", job_id, refusal)
        with self.database.write() as tx:
            mark_mentioned(tx, job_id, clock.now())


def render_mention(days: int) -> str:
    return (
        f"This pull request has waited for a review for {pluralize(days, 'day')}. Please merge it, close "
        "it, or say in a comment what is missing. Copydesk mentions this only once."
    )


def _find_touch(forge: Forge, pull: PullRequest, own_head: str | None, since: int) -> int | None:
    """Returns when a person last commented or pushed after this time; None if nobody did.

    The time of the last change does not show what happened before Copydesk's own last change.
    """
    comments = forge.list_comments(pull.number, since)
    times = [each.created_at for each in comments if COMMENT_MARKER not in each.text]
    if pull.head is not None and own_head is not None and pull.head != own_head:
        times.append(pull.updated_at or 0)
    return max((at for at in times if at > since), default=None)
