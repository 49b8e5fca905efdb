"""The operations on jobs that clients call: create, get, list, message, cancel, archive, and read the results."""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select

from copydesk.core import clock
from copydesk.core.db.database import Database, batch_ids
from copydesk.core.errors import Conflict, InvalidRequest, NotFound
from copydesk.core.ids import is_id, new_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project, validate_ref
from copydesk.core.rate_limits.limits import RateLimit, consume
from copydesk.jobs.execution.journal import finish_job
from copydesk.jobs.execution.queue import cancel_runs
from copydesk.jobs.job import (
    ACTIVE,
    ARCHIVED,
    CANCELLED,
    FAILED,
    Creator,
    Job,
    MergeLimits,
    Phase,
    PullState,
    Status,
    branch_name,
    check_transition,
)
from copydesk.jobs.storage.context_names import validate_context_names
from copydesk.jobs.storage.idempotency_keys import claim_idempotency_key
from copydesk.jobs.storage.records import (
    SELECT_JOB,
    EventKind,
    JobEvent,
    JobProgress,
    NewEvent,
    archive_job,
    describe_data,
    enqueue_run,
    get_job_for_update,
    insert_at_database_time,
    job_from_row,
    record_pull_event,
    store_job,
    update_job,
)
from copydesk.jobs.storage.tables import events, job_files, jobs, messages, runs

SELECT_CHANGED_FILES = (
    select(*(job_files.c[name] for name in ("job_id", "path", "change", "previous", "additions", "deletions")))
    .where(job_files.c.job_id.in_(bindparam("jobs", expanding=True)))
    .order_by(job_files.c.job_id, job_files.c.path)
)
SELECT_PATCHES = (
    select(*(job_files.c[name] for name in ("path", "change", "previous", "additions", "deletions", "patch")))
    .where(job_files.c.job_id == bindparam("job"))
    .order_by(job_files.c.path)
)


class JobNotFound(NotFound):
    code = "job_not_found"
    message = "Job not found in this project."


class WrongState(Conflict):
    code = "wrong_state"
    message = "The job's status does not allow this."


@dataclass(frozen=True)
class NewJob:
    prompt: str
    """What a person wrote, or the instructions of an automation. Only these words allow anything."""
    model: str | None = None
    ref: str | None = None
    draft: bool = False
    title: str | None = None
    context: Sequence[str] | None = None
    """The names of the context repositories that the agent may read; None means all."""
    reviewers: Sequence[str] = ()
    merge_limits: MergeLimits | None = None
    data: str = ""
    """What Copydesk collected for the agent, such as commits and comments of readers."""

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class CreatedJob:
    job: Job
    replayed: bool
    headers: dict[str, str]


@dataclass(frozen=True)
class ChangedFile:
    path: str
    change: str
    previous: str | None
    additions: int
    deletions: int


class AddedMessage(NamedTuple):
    id: str
    headers: dict[str, str]


class Jobs:
    def __init__(
        self, database: Database, *, default_model: str, more_models: Sequence[str] = (), per_hour: int
    ) -> None:
        self.database = database
        self.default_model = default_model
        self.more_models = more_models
        self.limit = RateLimit("jobs", per_hour, clock.HOUR, "COPYDESK_JOBS_PER_HOUR")

    def create(
        self, project: Project, new: NewJob, idempotency_key: str | None = None, *, created_by: Creator | None = None
    ) -> CreatedJob:
        """Creates a job with its first message and first run in one transaction, which is durable when this returns.

        Returns the earlier job when the same request was sent before with this idempotency key.
        """
        job = self.build_job(project, new, created_by)
        existing_job_id = None
        headers = {}
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            if idempotency_key is not None:
                existing_job_id = claim_idempotency_key(tx, project.id, idempotency_key, new.digest(), job.id)
            if existing_job_id is None:
                headers = self.insert_job(tx, job, new.data).headers
        if existing_job_id is not None:
            return CreatedJob(self.get(project.id, existing_job_id), replayed=True, headers={})
        return CreatedJob(job, replayed=False, headers=headers)

    def insert_job(self, tx: Connection, job: Job, data: str = "") -> "AddedMessage":
        """Stores a new job with its first message and first run in the caller's transaction, and counts it.

        `data` is what Copydesk collected for the agent.

        Raises TooManyRequests if the rate limit is exceeded.
        """
        headers = consume(self.database, tx, self.limit, job.project_id)
        store_job(self.database, tx, job, data)
        message_id = self._insert_message(tx, job.id, job.prompt, job.created_by, data)
        enqueue_run(self.database, tx, job.id, job.project_id, number=1)
        return AddedMessage(message_id, headers)

    def get(self, project_id: str, job_id: str) -> Job:
        if not is_id(job_id, "job"):
            raise JobNotFound
        with self.database.read() as tx:
            row = tx.execute(SELECT_JOB, {"job": job_id}).first()
        if row is None or row.project_id != project_id:
            raise JobNotFound
        return job_from_row(row)

    def read_data(self, job_id: str) -> str:
        """Returns what Copydesk collected for the agent when the job was created; empty if it collected nothing."""
        query = (
            select(messages.c.data).where(messages.c.job_id == job_id).order_by(messages.c.created_at, messages.c.id)
        )
        with self.database.read() as tx:
            return tx.execute(query.limit(1)).scalar() or ""

    def list_page(
        self, project_id: str, status: Status | None, limit: int, cursor: str | None
    ) -> tuple[list[Job], str | None]:
        """Returns one page of jobs, newest first, and the cursor of the next page; None means that there is none."""
        query = select(jobs).where(jobs.c.project_id == project_id).order_by(jobs.c.id.desc()).limit(limit + 1)
        if status is not None:
            query = query.where(jobs.c.status == status)
        if cursor is not None:
            query = query.where(jobs.c.id < cursor)
        with self.database.read() as tx:
            matching_jobs = [job_from_row(row) for row in tx.execute(query)]
        return matching_jobs[:limit], matching_jobs[limit - 1].id if len(matching_jobs) > limit else None

    def list_newest(self, project_id: str, offset: int, limit: int) -> list[Job]:
        """Returns jobs, newest first, without the first `offset`."""
        query = select(jobs).where(jobs.c.project_id == project_id).order_by(jobs.c.id.desc())
        with self.database.read() as tx:
            return [job_from_row(row) for row in tx.execute(query.limit(limit).offset(offset))]

    def add_message(
        self,
        project: Project,
        job_id: str,
        prompt: str,
        *,
        created_by: Creator | None = None,
        before_write: Callable[[Connection], None] = lambda tx: None,
    ) -> tuple[Job, dict[str, str]]:
        """Adds a message to a job. A finished job becomes active again; an active one reads it at its next turn.

        `before_write` runs in the same transaction before anything is written. If it raises, nothing is written.
        """
        with self.database.write() as tx:
            job = self._lock_job(tx, project.id, job_id)
            before_write(tx)
            headers = self.insert_message(tx, job, prompt, created_by).headers
        return self.get(project.id, job_id), headers

    def insert_message(
        self, tx: Connection, job: Job, prompt: str, created_by: Creator | None, data: str = ""
    ) -> "AddedMessage":
        """Adds a message to a job that the caller has locked, in the caller's transaction, and counts it.

        `data` is what Copydesk collected for the agent.

        Raises WrongState for an archived job, and TooManyRequests if the rate limit is exceeded.
        """
        if job.status is ARCHIVED:
            raise WrongState("The job is archived; unarchive it first.")
        headers = consume(self.database, tx, self.limit, job.project_id)
        message_id = self._insert_message(tx, job.id, prompt, created_by, data)
        sender = {"createdBy": created_by.model_dump()} if created_by else {}
        new_events = [NewEvent(EventKind.MESSAGE, {"prompt": prompt, **sender}), *describe_data(data)]
        if job.status is ACTIVE:
            update_job(self.database, tx, job.id, new_events)
        else:
            numbers = tx.execute(select(runs.c.number).where(runs.c.job_id == job.id)).scalars()
            enqueue_run(self.database, tx, job.id, job.project_id, max(numbers) + 1)
            values: dict[str, Any] = {"status": check_transition(job.status, ACTIVE), "phase": Phase.QUEUED}
            cleared = dict.fromkeys(("finished_at", "reason", "message", "question"))
            update_job(self.database, tx, job.id, new_events, **values, **cleared)
        return AddedMessage(message_id, headers)

    def cancel(self, project_id: str, job_id: str) -> Job:
        with self.database.write() as tx:
            job = self._lock_job(tx, project_id, job_id)
            if job.status is not ACTIVE:
                raise WrongState(f"The job is {job.status}; only an active job can be cancelled.")
            self._stop_job(tx, job_id)
        return self.get(project_id, job_id)

    def archive(self, project_id: str, job_id: str, pull_state: PullState | None = None) -> Job:
        """Archives a job, and stops it first if it is active. `pull_state` is the new state of its pull request."""
        with self.database.write() as tx:
            self.archive_in(tx, project_id, job_id, pull_state)
        return self.get(project_id, job_id)

    def archive_in(self, tx: Connection, project_id: str, job_id: str, pull_state: PullState | None) -> None:
        """Archives a job in the caller's transaction, which must not hold other locks yet."""
        job = self._lock_job(tx, project_id, job_id)
        if job.status is ACTIVE:
            self._stop_job(tx, job_id)
        archive_job(self.database, tx, job, pull_state)

    def unarchive(self, project_id: str, job_id: str, pull_state: PullState | None = None) -> Job:
        """Unarchives the job. `pull_state` is recorded also if the job is not archived."""
        with self.database.write() as tx:
            job = self._lock_job(tx, project_id, job_id)
            values: dict[str, Any] = {"pull_state": pull_state or job.pull_state}
            events = []
            if job.status is ARCHIVED:
                status = check_transition(ARCHIVED, job.archived_from or FAILED)
                values |= {"status": status, "archived_at": None, "archived_from": None}
                events = [NewEvent(EventKind.UNARCHIVED, {"status": status})]
            if events or values["pull_state"] != job.pull_state:
                update_job(self.database, tx, job_id, events, **values)
                record_pull_event(self.database, tx, job, pull_state)
        return self.get(project_id, job_id)

    def allowed_models(self, project: Project) -> list[str]:
        """Returns the models that a job of this project may use, the default first."""
        default = project.model or self.default_model
        return list(dict.fromkeys([default, self.default_model, *self.more_models, "mechanic"]))

    def changed_files(self, job_ids: Sequence[str]) -> dict[str, list[ChangedFile]]:
        files_by_job: dict[str, list[ChangedFile]] = {job_id: [] for job_id in job_ids}
        with self.database.read() as tx:
            for job_id, *fields in tx.execute(SELECT_CHANGED_FILES, {"jobs": job_ids}):
                files_by_job[job_id].append(ChangedFile(*fields))
        return files_by_job

    def diff(self, project_id: str, job_id: str) -> bytes:
        return b"".join(patch for _, patch in self.patches(project_id, job_id))

    def patches(self, project_id: str, job_id: str) -> list[tuple[ChangedFile, bytes]]:
        """Returns each changed file with its diff."""
        self.get(project_id, job_id)
        with self.database.read() as tx:
            return [(ChangedFile(*fields), patch) for *fields, patch in tx.execute(SELECT_PATCHES, {"job": job_id})]

    def working_times(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Returns how long each job was worked on so far, in milliseconds. Time between its runs does not count."""
        times = dict.fromkeys(job_ids, 0)
        query = select(runs.c.job_id, runs.c.started_at, runs.c.finished_at)
        query = query.where(runs.c.job_id.in_(job_ids), runs.c.started_at.is_not(None))
        with self.database.read() as tx:
            for job_id, started, finished in tx.execute(query):
                times[job_id] += max((finished or clock.now()) - started, 0)
        return times

    def list_events(self, project_id: str, job_id: str, after: int = 0) -> tuple[Job, list[JobEvent]]:
        """Returns the job and its events after this sequence number.

        Reads the job first, so that its status is never ahead of the returned events.
        """
        job = self.get(project_id, job_id)
        query = select(events).where(events.c.job_id == job_id, events.c.seq > after).order_by(events.c.seq)
        with self.database.read() as tx:
            return job, [JobEvent(row.seq, row.at, row.kind, row.data) for row in tx.execute(query)]

    def read_progress(self, job_ids: Collection[str]) -> dict[str, JobProgress]:
        """Returns the status and the last event number of each of these jobs, which may belong to any project."""
        progress_by_job: dict[str, JobProgress] = {}
        with self.database.read() as tx:
            for batch in batch_ids(job_ids):
                rows = tx.execute(select(jobs.c.id, jobs.c.status, jobs.c.last_event).where(jobs.c.id.in_(batch)))
                progress_by_job |= {row.id: JobProgress(Status(row.status), row.last_event) for row in rows}
        return progress_by_job

    def build_job(
        self, project: Project, new: NewJob, created_by: Creator | None = None, automation_id: str | None = None
    ) -> Job:
        """Returns a new job, not stored yet. Raises InvalidRequest for a model or branch that it cannot have."""
        models = self.allowed_models(project)
        model = new.model if new.model is not None else models[0]
        if model not in models:
            raise InvalidRequest(f"This project cannot use the model '{model[:80]}'. Use one of: {', '.join(models)}.")
        context = None if new.context is None else validate_context_names(self.database, project.id, new.context)
        job_id = new_id("job")
        now = clock.now()
        return Job(
            id=job_id,
            project_id=project.id,
            prompt=new.prompt,
            title=new.title,
            repository=project.repository,
            ref=validate_ref(new.ref) if new.ref is not None else project.ref,
            model=model,
            draft=new.draft or project.policy.draft,
            branch=branch_name(job_id, project.policy.branch_prefix),
            created_at=now,
            updated_at=now,
            context=context,
            reviewers=list(new.reviewers),
            merge_limits=new.merge_limits,
            created_by=created_by,
            automation_id=automation_id,
        )

    def _lock_job(self, tx: Connection, project_id: str, job_id: str) -> Job:
        job = get_job_for_update(tx, job_id) if is_id(job_id, "job") else None
        if job is None or job.project_id != project_id:
            raise JobNotFound
        return job

    def _insert_message(self, tx: Connection, job_id: str, prompt: str, created_by: Creator | None, data: str) -> str:
        message_id = new_id("msg")
        sender = created_by.model_dump() if created_by else None
        row = {"id": message_id, "job_id": job_id, "prompt": prompt, "data": data or None, "created_by": sender}
        tx.execute(insert_at_database_time(messages, self.database.clock_sql), row)
        return message_id

    def _stop_job(self, tx: Connection, job_id: str) -> None:
        """Cancels the job's runs and ends the job at once. A worker that still runs the job finds its lease lost."""
        cancel_runs(self.database, tx, job_id)
        finish_job(self.database, tx, job_id, CANCELLED)
