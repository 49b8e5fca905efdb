"""What a webhook sets in motion: a job is archived, comes back, or gets a message.

A payload is a hint and no more. How a pull request stands, and who may write, is asked of the forge; a comment is
taken up once, by its own number. So a delivery that comes twice, late or out of order does no harm.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, select, text

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import InvalidRequest, ProjectNotFound, Refusal
from copydesk.core.projects.projects import Project, Projects
from copydesk.jobs.job import ACTIVE, LONGEST_PROMPT, Job, JobFailed
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.polling import AllSecrets
from copydesk.jobs.publish.forges.registry import REMOTE, credentials_of, forge_for
from copydesk.jobs.publish.forges.webhooks.payloads import Happened, Mentioned, Reopened, event_of, happened, prompt_of
from copydesk.jobs.publish.forges.webhooks.signatures import has_signature, is_genuine
from copydesk.jobs.service import Jobs
from copydesk.jobs.storage.records import job_of
from copydesk.jobs.storage.tables import jobs, runs, webhook_deliveries

KEPT_FOR = 90 * clock.DAY
FIRST_COMES = text(
    """
    insert into webhook_deliveries (project_id, id, at) values (:project, :id, :at) on conflict do nothing
    """
)


class SignatureRejected(Refusal):
    status, code = 401, "signature_rejected"
    message = "The signature does not match the webhook secret, or there is no such project."


class ForgeNotAsked(Refusal):
    status, code = 503, "forge_away"
    message = "The forge could not be reached; deliver this webhook again later."

    def __init__(self, message: str) -> None:
        super().__init__(f"The forge could not be asked, so nothing was done: {message}", headers={"Retry-After": "60"})


class TakenBefore(Exception):
    """The comment came before, in another delivery."""


@dataclass(frozen=True)
class Heard:
    outcome: Literal["archived", "unarchived", "taken", "refused", "ignored"]
    why: str
    job_id: str | None = None


class Listener:
    def __init__(self, database: Database, projects: Projects, jobs: Jobs, secrets: AllSecrets) -> None:
        self.database, self.projects, self.jobs, self.secrets = database, projects, jobs, secrets

    def check_project(self, project_id: str, headers: Mapping[str, str]) -> None:
        """Raises SignatureRejected where no body could be genuine: no such project, no secret, or no signature."""
        project, secrets = self._project(project_id)
        if not secrets.get("webhook_secret") or not has_signature(project.forge, headers):
            raise SignatureRejected

    def hear(self, project_id: str, headers: Mapping[str, str], body: bytes) -> Heard:
        """Headers by their names in lower case."""
        project, secrets = self._project(project_id)
        if not is_genuine(project.forge, headers, body, secrets.get("webhook_secret", ""), time.time()):
            raise SignatureRejected
        event = happened(project.forge, event_of(project.forge, headers), _payload(body), project.policy.mention)
        if event is None:
            return Heard("ignored", "Nothing to do for this event.")
        job = self._job(project, event.number)
        if job is None:
            return Heard("ignored", "This pull request is not of a job of this project.")
        with _asked(project, secrets) as forge:
            if event.repository.casefold() != forge.repository.casefold():
                return Heard("ignored", "This is not the project's repository.")
            if isinstance(event, Mentioned):
                return self._take(project, job, event, forge)
            return self._follow(job, event, forge)

    def _follow(self, job: Job, event: Happened, forge: Forge) -> Heard:
        """The job goes where its pull request went."""
        pull = forge.get(event.number)
        if pull.state != "open":
            if job.status is ACTIVE and pull.ended_before(self._asked_at(job)):
                return Heard("ignored", f"The job was given more to do after {pull.number} was {pull.state}.", job.id)
            self.jobs.archive(job.project_id, job.id)
            return Heard("archived", f"Pull request {pull.number} is {pull.state}.", job.id)
        if isinstance(event, Reopened):
            self.jobs.unarchive(job.project_id, job.id)
            return Heard("unarchived", f"Pull request {pull.number} is open again.", job.id)
        return Heard("ignored", f"Pull request {pull.number} is open.", job.id)

    def _asked_at(self, job: Job) -> int:
        """When the job's newest run was asked for."""
        with self.database.read() as tx:
            found: int = tx.execute(select(func.max(runs.c.created_at)).where(runs.c.job_id == job.id)).scalar_one()
        return found

    def _take(self, project: Project, job: Job, said: Mentioned, forge: Forge) -> Heard:
        if not forge.can_write(said.user):
            return Heard("ignored", f"{said.user} may not write to the repository.", job.id)
        try:
            prompt = prompt_of(said, project.policy.mention)
            if not 1 <= len(prompt) <= LONGEST_PROMPT:
                raise InvalidRequest(f"A message has 1 to {LONGEST_PROMPT:,} characters.")
            self.jobs.message(project, job.id, prompt, first=lambda tx: _remember(tx, project.id, said.id))
        except TakenBefore:
            return Heard("ignored", "This comment was taken up before.", job.id)
        except Refusal as refusal:
            if refusal.status >= 500:
                raise
            return self._answer_once(project, job, said, refusal.message, forge)
        return Heard("taken", f"The comment of {said.user} is a message to the job.", job.id)

    def _answer_once(self, project: Project, job: Job, said: Mentioned, why: str, forge: Forge) -> Heard:
        try:
            with self.database.write() as tx:
                _remember(tx, project.id, said.id)
        except TakenBefore:
            return Heard("ignored", "This comment was answered before.", job.id)
        with suppress(JobFailed):
            forge.comment(said.number, f"This was not taken up: {why}")
        return Heard("refused", why, job.id)

    def _project(self, project_id: str) -> tuple[Project, Mapping[str, str]]:
        """A project that is not there, or is on no forge, gets the same answer as a wrong signature."""
        try:
            project = self.projects.get(project_id)
        except ProjectNotFound:
            raise SignatureRejected from None
        if project.forge not in REMOTE:
            raise SignatureRejected
        return project, self.secrets.all(project_id)

    def _job(self, project: Project, number: int) -> Job | None:
        wanted = select(jobs).where(
            jobs.c.project_id == project.id,
            jobs.c.repository == project.repository,
            jobs.c.pr_link.like(f"%/{number}"),
        )
        with self.database.read() as tx:
            row = tx.execute(wanted.order_by(jobs.c.id.desc()).limit(1)).first()
        return job_of(row) if row else None


def _remember(tx: Connection, project_id: str, comment: str) -> None:
    """In the transaction that acts on the comment, so that neither is there without the other."""
    if not tx.execute(FIRST_COMES, {"project": project_id, "id": comment, "at": clock.now()}).rowcount:
        raise TakenBefore


def forget_old_comments(database: Database) -> None:
    """For housekeeping: by then a job is archived and takes no message."""
    old = webhook_deliveries.c.at < clock.now() - KEPT_FOR
    with database.read() as tx:
        if tx.execute(select(webhook_deliveries.c.id).where(old).limit(1)).first() is None:
            return
    with database.write() as tx:
        tx.execute(delete(webhook_deliveries).where(old))


@contextmanager
def _asked(project: Project, secrets: Mapping[str, str]) -> Iterator[Forge]:
    try:
        forge = forge_for(project, credentials_of(project, secrets))
        try:
            yield forge
        finally:
            forge.end()
    except JobFailed as failure:
        raise ForgeNotAsked(str(failure)) from None


def _payload(body: bytes) -> Mapping[str, Any]:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise InvalidRequest("The body is not a JSON object: set the webhook's content type to application/json.")
    return payload
