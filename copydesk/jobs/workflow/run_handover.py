"""Hands a run of an automation over to a new job, because the newest base conflicts with the pull request.

The run would not see what was pushed. The new job begins at the newest base, with the same messages.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select, update

from copydesk.core import clock
from copydesk.core.ids import new_id
from copydesk.core.projects.projects import Project
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import (
    COMPLETED,
    Job,
    JobFailed,
    JobOutcome,
    Reason,
    branch_name,
    job_page_url,
)
from copydesk.jobs.publish.forge_retry import Pause, retry_while_unavailable
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.unique_comments import add_comment_once
from copydesk.jobs.storage.records import enqueue_run, store_job
from copydesk.jobs.storage.tables import messages, pulls

log = logging.getLogger(__name__)

NOTICE_START = "This pull request conflicts with"
COMMENT_TIMEOUT_SECONDS = 120.0
"""How long a run waits for a forge that does not respond."""

MoveAutomationRuns = Callable[[Connection, str, Sequence[str], str], None]
"""Moves the automation's runs of these messages from one job to another, in the caller's transaction."""


@dataclass(frozen=True)
class RunHandover:
    journal: Journal
    job: Job
    project: Project
    forge: Forge | None
    base_url: str
    move_automation_runs: MoveAutomationRuns
    check_still_active: Callable[[], None]
    pause: Pause
    deadline: float

    def hand_over(self) -> JobOutcome:
        """Creates the new job once, and tells the pull request of the conflict. The job stays as it was."""
        with self.journal.step("handover", str) as step:
            if not step.is_done:
                with step.transaction() as tx:
                    waiting = self._list_waiting(tx)
                    new_job = self._build_job(waiting[0].prompt)
                    store_job(self.journal.database, tx, new_job, waiting[0].data or "")
                    self._move_messages(tx, [row.id for row in waiting], new_job.id)
                    enqueue_run(self.journal.database, tx, new_job.id, new_job.project_id, number=1)
                    if self.forge is None:
                        self._tell_local_pull(tx, self._render_notice(new_job.id))
                    step.save(new_job.id)
        self._comment(self._render_notice(step.result))
        return JobOutcome(COMPLETED, Reason.NO_CHANGES, self._render_notice(step.result), keeps_job=True)

    def _build_job(self, prompt: str) -> Job:
        job_id, now, old = new_id("job"), clock.now(), self.job
        return Job(
            id=job_id,
            project_id=old.project_id,
            prompt=prompt,
            repository=old.repository,
            ref=old.ref,
            model=old.model,
            draft=old.draft,
            branch=branch_name(job_id, self.project.policy.branch_prefix),
            created_at=now,
            updated_at=now,
            context=old.context,
            reviewers=old.reviewers,
            merge_limits=old.merge_limits,
            created_by=old.created_by,
            automation_id=old.automation_id,
        )

    def _list_waiting(self, tx: Connection) -> Sequence[Any]:
        """Returns the automation's messages that no run has read, oldest first."""
        is_waiting = (messages.c.job_id == self.job.id) & messages.c.run_id.is_(None) & messages.c.origin.is_not(None)
        query = select(messages.c.id, messages.c.prompt, messages.c.data).where(is_waiting)
        return tx.execute(query.order_by(messages.c.created_at, messages.c.id)).all()

    def _move_messages(self, tx: Connection, ids: Sequence[str], new_job_id: str) -> None:
        is_moved = (messages.c.job_id == self.job.id) & messages.c.id.in_(ids)
        tx.execute(update(messages).where(is_moved).values(job_id=new_job_id))
        self.move_automation_runs(tx, self.job.id, ids, new_job_id)

    def _render_notice(self, new_job_id: str) -> str:
        page = job_page_url(self.base_url, replace(self.job, id=new_job_id))
        return (
            f"{NOTICE_START} {self.job.ref}, so the automation's run went on in a new job: {page}. "
            "Resolve the conflict here, or close this pull request."
        )

    def _tell_local_pull(self, tx: Connection, notice: str) -> None:
        """Adds the notice to the description of a local pull request, unless it has one."""
        same_branch = (pulls.c.project_id == self.job.project_id) & (pulls.c.branch == self.job.branch)
        is_told = pulls.c.body.contains(NOTICE_START)
        tx.execute(update(pulls).where(same_branch, ~is_told).values(body=pulls.c.body + f"\n\n{notice}\n"))

    def _comment(self, notice: str) -> None:
        """Comments on the pull request, once for all runs. The job says it too, so a failure does not fail the run."""
        forge = self.forge
        number = parse_pull_number(self.job.pr_link) if self.job.pr_link else None
        if forge is None or number is None:
            return

        def post() -> None:
            self.check_still_active()
            add_comment_once(forge, number, notice, "conflict", since=self.job.created_at, may_exist=True)

        with self.journal.step("conflict-comment", bool) as step:
            if not step.is_done:
                is_posted = True
                try:
                    retry_while_unavailable(
                        post, self.pause, min(self.deadline, time.monotonic() + COMMENT_TIMEOUT_SECONDS)
                    )
                except JobFailed as failure:
                    log.warning("job %s: its pull request is not told of a conflict: %s", self.job.id, failure)
                    is_posted = False
                step.save(is_posted)
