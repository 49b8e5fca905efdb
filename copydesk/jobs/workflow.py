"""The durable steps of a job, top to bottom: pin ▶ turns ▶ commit ▶ push ▶ open. Every act may be repeated."""

import logging
import time
from collections.abc import Callable

from pydantic import BaseModel
from sqlalchemy import Connection

from copydesk.core.database import Database
from copydesk.core.errors import StoreDown
from copydesk.core.projects import Projects
from copydesk.core.settings import Settings
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.loop import Budget, Editor, Pinned
from copydesk.jobs.agent.models import ModelUnavailable, model_for
from copydesk.jobs.housekeeping import notice_merges, pack_mirrors, tidy
from copydesk.jobs.job import COMPLETED, FAILED, Ending, Job, JobFailed, Phase, Reason
from copydesk.jobs.journal import Journal, Lost
from copydesk.jobs.publish import policy
from copydesk.jobs.publish.forges.local import Pulls, find_or_open
from copydesk.jobs.publish.publisher import Committed, Publisher, commit_message, pull_text
from copydesk.jobs.publish.repository import Mirror
from copydesk.jobs.worker import Attempt, Interrupted
from copydesk.jobs.workspace import Workspace

log = logging.getLogger(__name__)

ModelFor = Callable[[str], Model]
ROUND_SECONDS = 300.0


class Opened(BaseModel):
    number: int
    link: str


class JobWorkflow:
    def __init__(self, database: Database, settings: Settings, pulls: Pulls, model: ModelFor | None = None) -> None:
        self.database, self.settings, self.pulls = database, settings, pulls
        self.projects = Projects(database)
        self._next_round = time.monotonic() + ROUND_SECONDS
        self.model = model or (lambda name: model_for(name, url=settings.model_url))

    def perform(self, attempt: Attempt) -> None:
        """Carries the run out as far as it goes. A lost claim ends in silence: a later attempt owns the run."""
        journal = Journal(self.database, attempt.claim)
        try:
            ending = self._work(journal, attempt)
        except Lost:
            return
        except StoreDown:
            raise
        except Interrupted:
            if not attempt.timed_out:
                return
            minutes = f"{self.settings.job_minutes:g} minutes"
            ending = Ending(FAILED, Reason.TIMED_OUT, f"The job was not finished within {minutes}.")
        except JobFailed as failure:
            ending = Ending(FAILED, failure.reason, str(failure))
        except Exception:
            log.exception("job %s failed", attempt.claim.job_id)
            ending = Ending(FAILED, Reason.INTERNAL_ERROR, "Something went wrong inside Copydesk; its log says what.")
        journal.settle(ending)

    def housekeeping(self) -> None:
        """About once a minute; what reaches out to repositories less often."""
        tidy(self.database, self.settings)
        if time.monotonic() >= self._next_round:
            self._next_round = time.monotonic() + ROUND_SECONDS
            notice_merges(self.database, self.settings, self.pulls)
            pack_mirrors(self.settings)

    def _work(self, journal: Journal, attempt: Attempt) -> Ending:
        if attempt.claim.crashes >= self.settings.most_attempts:
            raise JobFailed(f"Given up: its worker died in each of {self.settings.most_attempts} attempts.")
        job, project = journal.job(), self.projects.get(attempt.claim.project_id)
        mirror = Mirror.of(self.settings.mirrors, project, attempt.stoppable)

        is_follow_up = attempt.claim.number > 1
        pinned = journal.step("pin", Pinned, lambda: _pin(job, mirror, is_follow_up), effects=_keep_base(journal, job))
        mirror.ensure(pinned.start, job.branch if pinned.head else job.ref)
        workspace = Workspace(
            mirror.tree(pinned.start), lambda path: policy.refuse_protected(path, project.policy.allowed_paths)
        )

        if not journal.has("turn-1-reply"):
            journal.enter(Phase.THINKING)
        editor = Editor(self._model(job), journal, attempt, Budget.of(self.settings), mirror.tree(pinned.base))
        finished = editor.run(workspace)
        unopened = pinned.head is not None and job.pr_link is None
        if not workspace.changes() and not unopened:
            journal.keep(title=job.title or finished.title, summary=finished.summary)
            return Ending(COMPLETED, Reason.NO_CHANGES, finished.summary or "Nothing needed to be changed.")

        journal.enter(Phase.PUBLISHING)
        policy.check(workspace.tree, workspace.changes(), project.policy.allowed_paths)
        title = job.title or finished.title
        publisher = Publisher(
            job=job,
            mirror=mirror,
            start=pinned.start,
            on_own_branch=pinned.head is not None,
            changes=workspace.changes(),
            message=commit_message(job, finished.title if pinned.head else title, finished.summary),
            at=attempt.claim.created_at,
        )
        committed = journal.step("commit", Committed, publisher.commit)

        def push() -> str:
            publisher.ensure(committed)
            attempt.check()
            journal.guard()
            mirror.push(committed.commit, job.branch, expected=pinned.head)
            return committed.commit

        def publish(tx: Connection) -> Opened:
            body = pull_text(job, journal.prompts(tx), finished.summary, committed.note)
            pull = find_or_open(self.database, tx, job, title, body, committed.commit)
            link = pull.link(self.settings.base_url)
            base = pinned.base if pinned.head else committed.onto
            journal.set(tx, pr_link=link, base=base, head=committed.commit, title=pull.title, summary=finished.summary)
            return Opened(number=pull.number, link=link)

        journal.step("push", str, push, notes=lambda head: [("pushed", {"branch": job.branch, "commit": head})])
        journal.record("open", Opened, publish, notes=lambda opened: [("pull_request", {"url": opened.link})])
        return Ending(COMPLETED, message=committed.note)

    def _model(self, job: Job) -> Model:
        try:
            return self.model(job.model)
        except ModelUnavailable as error:
            raise JobFailed(str(error), Reason.MODEL_ERROR) from None


def _pin(job: Job, mirror: Mirror, is_follow_up: bool) -> Pinned:
    """A follow-up goes on from the branch as it is now, with whatever a person pushed to it since."""
    newest = mirror.head(job.ref)
    head = mirror.find(job.branch) if is_follow_up else None
    return Pinned(base=job.base if job.base and mirror.has(job.base) else newest, head=head)


def _keep_base(journal: Journal, job: Job) -> Callable[[Connection, Pinned], None]:
    def keep(tx: Connection, pinned: Pinned) -> None:
        if job.base != pinned.base:
            journal.set(tx, base=pinned.base)

    return keep
