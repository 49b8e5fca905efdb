"""Handles webhook deliveries: archives or unarchives a job, or sends it a message.

Payloads are treated as hints only. The forge is asked for the state of the pull request and for the user's permissions,
and each comment is processed once, by its id. So repeated, late and reordered deliveries do no harm.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import InvalidRequest, ProjectNotFound, RequestError
from copydesk.core.projects.projects import Project, Projects
from copydesk.jobs.job import ACTIVE, MAX_PROMPT_CHARS, Job, JobFailed
from copydesk.jobs.publish.forges.forge import Forge, PullRequest
from copydesk.jobs.publish.forges.polling import SecretsReader
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, open_forge
from copydesk.jobs.publish.forges.webhooks.payloads import (
    AgentMentioned,
    PullEvent,
    PullReopened,
    build_prompt,
    parse_event,
    read_event_name,
)
from copydesk.jobs.publish.forges.webhooks.signatures import has_signature, is_signature_valid
from copydesk.jobs.service import Jobs
from copydesk.jobs.storage.records import job_from_row
from copydesk.jobs.storage.tables import jobs, runs, webhook_deliveries

COMMENT_RETENTION_MILLISECONDS = 90 * clock.DAY


class SignatureRejected(RequestError):
    status, code = 401, "signature_rejected"
    message = "The signature does not match the webhook secret, or the project does not exist."


class ForgeRequestFailed(RequestError):
    status, code = 503, "forge_away"
    message = "The forge could not be reached. Redeliver this webhook later."

    def __init__(self, message: str) -> None:
        super().__init__(
            f"The request to the forge failed, so nothing was changed: {message}", headers={"Retry-After": "60"}
        )


class CommentAlreadyHandled(Exception):
    """The comment was already processed in an earlier delivery."""


@dataclass(frozen=True)
class DeliveryResult:
    outcome: Literal["archived", "unarchived", "taken", "refused", "ignored"]
    reason: str
    job_id: str | None = None


class WebhookReceiver:
    def __init__(self, database: Database, projects: Projects, jobs: Jobs, secrets: SecretsReader) -> None:
        self.database = database
        self.projects = projects
        self.jobs = jobs
        self.secrets = secrets

    def check_project(self, project_id: str, headers: Mapping[str, str]) -> None:
        """Raises SignatureRejected if the project, its webhook secret or the signature is missing.

        The caller can check this before it reads the body.
        """
        project, secrets = self._load_project(project_id)
        if not secrets.get("webhook_secret") or not has_signature(project.forge, headers):
            raise SignatureRejected

    def handle_delivery(self, project_id: str, headers: Mapping[str, str], body: bytes) -> DeliveryResult:
        """Verifies and processes a delivery. The names of `headers` must be in lower case."""
        project, secrets = self._load_project(project_id)
        if not is_signature_valid(project.forge, headers, body, secrets.get("webhook_secret", ""), time.time()):
            raise SignatureRejected
        event = parse_event(
            project.forge, read_event_name(project.forge, headers), _parse_payload(body), project.policy.mention
        )
        if event is None:
            return DeliveryResult("ignored", "Nothing to do for this event.")
        job = self._find_job(project, event.number)
        if job is None:
            return DeliveryResult("ignored", "This pull request does not belong to a job of this project.")
        try:
            with open_forge(project, secrets) as forge:
                if event.repository.casefold() != forge.repository.casefold():
                    return DeliveryResult("ignored", "This is not the project's repository.")
                pull = forge.get_pull(event.number)
                if pull.branch != job.branch:
                    return DeliveryResult("ignored", "This pull request is not from the branch of the job.", job.id)
                if isinstance(event, AgentMentioned):
                    return self._handle_mention(project, job, event, forge)
                return self._follow_pull_state(job, event, pull)
        except JobFailed as failure:
            raise ForgeRequestFailed(str(failure)) from None

    def _follow_pull_state(self, job: Job, event: PullEvent, pull: PullRequest) -> DeliveryResult:
        """Archives or unarchives the job to match the current state of its pull request."""
        if pull.state != "open":
            if job.status is ACTIVE and pull.closed_before(self._newest_run_created_at(job)):
                return DeliveryResult(
                    "ignored", f"The job got a new message after pull request {pull.number} was {pull.state}.", job.id
                )
            self.jobs.archive(job.project_id, job.id)
            return DeliveryResult("archived", f"Pull request {pull.number} is {pull.state}.", job.id)
        if isinstance(event, PullReopened):
            self.jobs.unarchive(job.project_id, job.id)
            return DeliveryResult("unarchived", f"Pull request {pull.number} is open again.", job.id)
        return DeliveryResult("ignored", f"Pull request {pull.number} is open.", job.id)

    def _newest_run_created_at(self, job: Job) -> int:
        with self.database.read() as tx:
            created_at: int = tx.execute(
                select(func.max(runs.c.created_at)).where(runs.c.job_id == job.id)
            ).scalar_one()
        return created_at

    def _handle_mention(self, project: Project, job: Job, mention: AgentMentioned, forge: Forge) -> DeliveryResult:
        if not forge.can_write(mention.user):
            return DeliveryResult("ignored", f"{mention.user} does not have write access to the repository.", job.id)
        try:
            prompt = build_prompt(mention, project.policy.mention)
            if not 1 <= len(prompt) <= MAX_PROMPT_CHARS:
                raise InvalidRequest(f"A message must have 1 to {MAX_PROMPT_CHARS:,} characters.")
            self.jobs.add_message(
                project, job.id, prompt, before_write=lambda tx: _record_comment(tx, project.id, mention.id)
            )
        except CommentAlreadyHandled:
            return DeliveryResult("ignored", "This comment was already processed.", job.id)
        except RequestError as refusal:
            if refusal.status >= 500:
                raise
            return self._reply_once(project, job, mention, refusal.message, forge)
        return DeliveryResult("taken", f"The comment by {mention.user} was sent to the job as a message.", job.id)

    def _reply_once(
        self, project: Project, job: Job, mention: AgentMentioned, reason: str, forge: Forge
    ) -> DeliveryResult:
        try:
            with self.database.write() as tx:
                _record_comment(tx, project.id, mention.id)
        except CommentAlreadyHandled:
            return DeliveryResult("ignored", "This comment was already answered.", job.id)
        with suppress(JobFailed):
            forge.add_comment(mention.number, f"Copydesk could not process this comment: {reason}")
        return DeliveryResult("refused", reason, job.id)

    def _load_project(self, project_id: str) -> tuple[Project, Mapping[str, str]]:
        """Returns the project and its secrets.

        Raises SignatureRejected if the project does not exist or is not on a remote forge, so that the response does
        not reveal which projects exist.
        """
        try:
            project = self.projects.get(project_id)
        except ProjectNotFound:
            raise SignatureRejected from None
        if project.forge not in REMOTE_FORGES:
            raise SignatureRejected
        return project, self.secrets.all(project_id)

    def _find_job(self, project: Project, number: int) -> Job | None:
        query = select(jobs).where(
            jobs.c.project_id == project.id,
            jobs.c.repository == project.repository,
            jobs.c.pr_link.like(f"%/{number}"),
        )
        with self.database.read() as tx:
            row = tx.execute(query.order_by(jobs.c.id.desc()).limit(1)).first()
        return job_from_row(row) if row else None


def _record_comment(tx: Connection, project_id: str, comment_id: str) -> None:
    """Records that the comment was processed. Raises CommentAlreadyHandled if it already was.

    Must run in the transaction that acts on the comment, so that both are committed together.
    """
    row = {"project_id": project_id, "id": comment_id, "at": clock.now()}
    if not insert_if_absent(tx, webhook_deliveries, row):
        raise CommentAlreadyHandled


def delete_old_comments(database: Database) -> None:
    """Deletes old records of processed comments. Their jobs are archived by then and accept no messages."""
    is_old = webhook_deliveries.c.at < clock.now() - COMMENT_RETENTION_MILLISECONDS
    with database.read() as tx:
        if tx.execute(select(webhook_deliveries.c.id).where(is_old).limit(1)).first() is None:
            return
    with database.write() as tx:
        tx.execute(delete(webhook_deliveries).where(is_old))


def _parse_payload(body: bytes) -> Mapping[str, Any]:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise InvalidRequest("The body is not a JSON object. Set the webhook's content type to application/json.")
    return payload
