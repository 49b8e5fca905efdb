"""Handles webhook deliveries: archives or unarchives a job, sends it a message, or requests a look at a repository.

Payloads are treated as hints only. The forge is asked for the state of the pull request and for the user's permissions,
and each comment is processed once, by its id. So repeated, late and reordered deliveries do no harm.
"""

import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import parse_qs

from sqlalchemy import Connection, delete, func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import InvalidRequest, ProjectNotFound, RequestError
from copydesk.core.projects.projects import Project, Projects
from copydesk.jobs.job import ACTIVE, MAX_PROMPT_CHARS, Creator, CreatorKind, Job, JobFailed
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Forge, PullComment, PullRequest
from copydesk.jobs.publish.forges.markers import COMMENT_MARKER
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, SecretsReader, open_forge, split_repository_url
from copydesk.jobs.publish.forges.webhooks.inbox import Inbox, PendingEvent
from copydesk.jobs.publish.forges.webhooks.payloads import (
    AgentMentioned,
    PullEvent,
    PullReopened,
    ReviewSubmitted,
    build_prompt,
    has_mention,
    parse_event,
    read_event_name,
    remove_unstorable,
)
from copydesk.jobs.publish.forges.webhooks.pushes import (
    RefChange,
    find_sender,
    parse_ref_change,
    read_delivery_id,
)
from copydesk.jobs.publish.forges.webhooks.signatures import has_signature, is_signature_valid
from copydesk.jobs.service import Jobs
from copydesk.jobs.storage.records import job_from_row
from copydesk.jobs.storage.tables import jobs, runs, webhook_deliveries

log = logging.getLogger(__name__)

PROCESSING_TIMEOUT_SECONDS = 20.0
KEPT_REASON = "The event is stored, and Copydesk tries again later."
COMMENT_RETENTION_MILLISECONDS = 90 * clock.DAY
DELIVERY_PREFIX = "delivery-"
"""Begins the ids of deliveries, which are kept beside those of comments, but not as long."""
DELIVERY_RETENTION_MILLISECONDS = 7 * clock.DAY
"""Longer than a forge repeats a delivery."""
FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"


class SignatureRejected(RequestError):
    status, code = 401, "signature_rejected"
    message = "The signature does not match the webhook secret, or the project does not exist."


class ForgeRequestFailed(RequestError):
    status, code = 503, "forge_away"
    message = "The forge could not be reached. Redeliver this webhook later."

    def __init__(self, message: str) -> None:
        super().__init__(f"The event was not stored, so nothing was changed: {message}", headers={"Retry-After": "60"})


class CommentAlreadyHandled(Exception):
    """The comment was already processed in an earlier delivery."""


@dataclass(frozen=True)
class DeliveryResult:
    outcome: Literal["archived", "unarchived", "taken", "refused", "ignored", "kept"]
    reason: str
    job_id: str | None = None


class PushListener(Protocol):
    def receive(self, project: Project, change: RefChange, delivery_id: str | None) -> DeliveryResult:
        """Stores that a repository of the project may have changed, if anything depends on it."""


class WebhookReceiver:
    def __init__(
        self,
        database: Database,
        projects: Projects,
        jobs: Jobs,
        secrets: SecretsReader,
        push_listener: PushListener | None = None,
    ) -> None:
        self.database = database
        self.projects = projects
        self.jobs = jobs
        self.secrets = secrets
        self.push_listener = push_listener
        self.inbox = Inbox(database)

    def check_project(self, project_id: str, headers: Mapping[str, str]) -> None:
        """Raises SignatureRejected if the project, its webhook secret or the signature is missing.

        The caller can check this before it reads the body.
        """
        project, secrets = self._load_project(project_id)
        sender = find_sender(project.forge, headers)
        if not secrets.get("webhook_secret") or not has_signature(sender, headers):
            raise SignatureRejected

    def accept_delivery(
        self, project_id: str, headers: Mapping[str, str], body: bytes
    ) -> "DeliveryResult | PendingEvent":
        """Verifies a delivery, and stores its event. The names of `headers` must be in lower case.

        Asks nothing of the forge, so that the response is sent in time: forges wait 10 seconds, and some disable a
        webhook after failures. Returns a result if there is nothing to do for the event.
        """
        project, secrets = self._load_project(project_id)
        sender = find_sender(project.forge, headers)
        if not is_signature_valid(sender, headers, body, secrets.get("webhook_secret", ""), time.time()):
            raise SignatureRejected
        payload, event_name = _parse_payload(headers, body), read_event_name(sender, headers)
        change = parse_ref_change(event_name, payload)
        if change is not None and self.push_listener is not None:
            return self.push_listener.receive(project, change, read_delivery_id(sender, headers))
        is_own_forge = sender == project.forge and sender in REMOTE_FORGES
        event = parse_event(sender, event_name, payload, project.policy.mention) if is_own_forge else None
        if event is None:
            return DeliveryResult("ignored", "Nothing to do for this event.")
        if self._find_job(project, event.number) is None:
            return DeliveryResult("ignored", "This pull request does not belong to a job of this project.")
        if not _is_own_repository(project, event):
            return DeliveryResult("ignored", "This is not the project's repository.")
        pending = self.inbox.keep(project_id, event)
        if pending is None:
            raise ForgeRequestFailed("too many events wait for the forge.")
        return pending

    def process_event(self, pending: PendingEvent) -> DeliveryResult:
        """Processes a stored event with the forge's help. If the forge cannot be asked, it stays stored for later."""
        try:
            result = self._process_event(pending)
        except JobFailed as failure:
            log.warning("event %s of project %s waits: %s", pending.id, pending.project_id, failure)
            self.inbox.keep(pending.project_id, pending.event)  # a delivery of the same event may have removed it
            return DeliveryResult("kept", f"{KEPT_REASON} {failure}")
        self.inbox.remove(pending)
        return result

    def process_due_events(self) -> None:
        """Processes stored events whose next attempt is due. A failure of one does not stop the others."""
        for pending in self.inbox.claim_due():
            try:
                self.process_event(pending)
            except Exception as failure:
                log.warning("cannot process event %s of project %s: %s", pending.id, pending.project_id, failure)

    def _process_event(self, pending: PendingEvent) -> DeliveryResult:
        event = pending.event
        try:
            project, secrets = self._load_project(pending.project_id)
        except SignatureRejected:
            return DeliveryResult("ignored", "The project is gone.")
        if project.forge not in REMOTE_FORGES:
            return DeliveryResult("ignored", "The project is no longer on a forge.")
        job = self._find_job(project, event.number)
        if job is None:
            return DeliveryResult("ignored", "This pull request does not belong to a job of this project.")
        with open_forge(project, secrets, time.monotonic() + PROCESSING_TIMEOUT_SECONDS) as forge:
            pull = forge.get_pull(event.number)
            if pull.branch != job.branch:
                return DeliveryResult("ignored", "This pull request is not from the branch of the job.", job.id)
            if isinstance(event, AgentMentioned):
                return self._handle_mention(project, job, event, forge)
            if isinstance(event, ReviewSubmitted):
                return self.read_comments(project, job, event.number, forge, clock.now() - clock.DAY)
            return self._follow_pull_state(job, event, pull)

    def read_comments(self, project: Project, job: Job, number: int, forge: Forge, since: int) -> DeliveryResult:
        """Handles the mentions among the comments since this time that no webhook brought."""
        comments = [
            comment
            for comment in forge.list_comments(number, since)
            if COMMENT_MARKER not in comment.text and has_mention(comment.text, project.policy.mention)
        ]
        results = [
            self._handle_mention(project, job, _mention_from_comment(comment, forge.repository, number), forge)
            for comment in comments
            if not self._is_recorded(project.id, comment.id)
        ]
        taken = [result for result in results if result.outcome == "taken"]
        return next(iter([*taken, *results]), DeliveryResult("ignored", "There is no new mention.", job.id))

    def _follow_pull_state(self, job: Job, event: PullEvent, pull: PullRequest) -> DeliveryResult:
        """Archives or unarchives the job to match the current state of its pull request."""
        if pull.state != "open":
            if job.status is ACTIVE and pull.closed_before(self._newest_run_created_at(job)):
                return DeliveryResult(
                    "ignored", f"The job got a new message after pull request {pull.number} was {pull.state}.", job.id
                )
            self.jobs.archive(job.project_id, job.id, pull.state)
            return DeliveryResult("archived", f"Pull request {pull.number} is {pull.state}.", job.id)
        if isinstance(event, PullReopened):
            self.jobs.unarchive(job.project_id, job.id, pull.state)
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
                project,
                job.id,
                prompt,
                created_by=Creator(kind=CreatorKind.REVIEW_COMMENT, name=mention.user),
                before_write=lambda tx: _record_comment(tx, project.id, mention.id),
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

        Raises SignatureRejected if the project does not exist, so that the response does not reveal which ones do.
        """
        try:
            project = self.projects.get(project_id)
        except ProjectNotFound:
            raise SignatureRejected from None
        return project, self.secrets.all(project_id)

    def _is_recorded(self, project_id: str, comment_id: str) -> bool:
        query = select(webhook_deliveries.c.id).where(
            webhook_deliveries.c.project_id == project_id, webhook_deliveries.c.id == comment_id
        )
        with self.database.read() as tx:
            return tx.execute(query).first() is not None

    def _find_job(self, project: Project, number: int) -> Job | None:
        query = select(jobs).where(
            jobs.c.project_id == project.id,
            jobs.c.repository == project.repository,
            jobs.c.pr_link.like(f"%/{number}"),
        )
        with self.database.read() as tx:
            row = tx.execute(query.order_by(jobs.c.id.desc()).limit(1)).first()
        return job_from_row(row) if row else None


def _is_own_repository(project: Project, event: PullEvent) -> bool:
    try:
        name = split_repository_url(project.forge, project.repository, project.policy.api_url)[1]
    except ForgeRefused as refusal:
        raise ForgeRequestFailed(str(refusal)) from None
    return event.repository.casefold() == name.casefold()


def _mention_from_comment(comment: PullComment, repository: str, number: int) -> AgentMentioned:
    fields = {name: value for name, value in vars(comment).items() if name != "created_at"}
    texts = {name: remove_unstorable(value) for name, value in fields.items() if isinstance(value, str)}
    return AgentMentioned(repository=repository, number=number, **{**fields, **texts})


def _record_comment(tx: Connection, project_id: str, comment_id: str) -> None:
    """Records that the comment was processed. Raises CommentAlreadyHandled if it already was.

    Must run in the transaction that acts on the comment, so that both are committed together.
    """
    row = {"project_id": project_id, "id": comment_id, "at": clock.now()}
    if not insert_if_absent(tx, webhook_deliveries, row):
        raise CommentAlreadyHandled


def delete_old_comments(database: Database) -> None:
    """Deletes old records of deliveries, and of comments, whose jobs are archived by then and accept no messages."""
    now = clock.now()
    is_delivery = webhook_deliveries.c.id.startswith(DELIVERY_PREFIX, autoescape=True)
    is_old = (webhook_deliveries.c.at < now - COMMENT_RETENTION_MILLISECONDS) | (
        is_delivery & (webhook_deliveries.c.at < now - DELIVERY_RETENTION_MILLISECONDS)
    )
    with database.read() as tx:
        if tx.execute(select(webhook_deliveries.c.id).where(is_old).limit(1)).first() is None:
            return
    with database.write() as tx:
        tx.execute(delete(webhook_deliveries).where(is_old))


def _parse_payload(headers: Mapping[str, str], body: bytes) -> Mapping[str, Any]:
    """Returns the JSON object of the body, or of the field `payload` if the body is a form."""
    try:
        is_form = headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_MEDIA_TYPE
        payload = json.loads(parse_qs(body.decode(), max_num_fields=10)["payload"][0] if is_form else body)
    except (KeyError, ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise InvalidRequest("The body is not a JSON object. Set the webhook's content type to application/json.")
    return payload
