"""Functions that read and write jobs, runs, events and changed files within the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Insert, Row, Table, Update, bindparam, delete, insert, literal_column, select, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.ids import new_id
from copydesk.core.projects.project_events import EventType, record_event
from copydesk.jobs.job import (
    ACTIVE,
    ARCHIVED,
    FAILED,
    Creator,
    Job,
    JobQuestion,
    JobSecondLook,
    MergeLimits,
    Phase,
    PullState,
    Reason,
    ReviewState,
    Status,
    Usage,
    check_transition,
)
from copydesk.jobs.risk import Risk, RiskKind
from copydesk.jobs.storage.job_events import describe_job, find_pull_event
from copydesk.jobs.storage.review_states import STATE_COLUMNS, UPDATE_REVIEW_STATE
from copydesk.jobs.storage.run_traces import save_trace_parent
from copydesk.jobs.storage.tables import events, job_files, jobs, runs

if TYPE_CHECKING:
    from copydesk.jobs.workspace.patches import FilePatch

QUEUE_TOPIC = "queue"
STOP_TOPIC = "stop"
WORKFLOW_VERSION = 1

# Statements are built once, since building one costs as much as running it.
SELECT_JOB = select(jobs).where(jobs.c.id == bindparam("job"))
SELECT_JOB_FOR_UPDATE = SELECT_JOB.with_for_update()
INSERT_EVENT = insert(events)
INSERT_JOB = insert(jobs)
SELECT_PROJECT_OF_JOB = select(jobs.c.project_id).where(jobs.c.id == bindparam("job"))


def job_topic(job_id: str) -> str:
    return f"job:{job_id}"


@dataclass(frozen=True)
class JobEvent:
    seq: int
    at: int
    kind: str
    data: dict[str, Any]


class JobProgress(NamedTuple):
    """A job's status and the number of its last event."""

    status: Status
    last_event: int


class EventKind(StrEnum):
    """Kinds of job events. The values are stored and are part of the API, so they must not change."""

    QUEUED = "queued"
    MESSAGE = "message"
    DATA = "data"
    PHASE = "phase"
    RESUMED = "resumed"
    THOUGHT = "thought"
    TOOL = "tool"
    CHECKED = "checked"
    WAITING = "waiting"
    PUSHED = "pushed"
    PULL_REQUEST = "pull_request"
    REVIEWERS = "reviewers"
    FINISHED = "finished"
    ARCHIVED = "archived"
    UNARCHIVED = "unarchived"


class NewEvent(NamedTuple):
    """An event that is not stored yet."""

    kind: EventKind
    data: dict[str, Any]


def job_from_row(row: Row[Any]) -> Job:
    fields = dict(row._mapping)
    del fields["creator_kind"], fields["creator_id"]
    fields["review_state"] = ReviewState(row.review_state)
    fields["status"], fields["phase"] = Status(row.status), Phase(row.phase)
    fields["reason"] = Reason(row.reason) if row.reason else None
    fields["archived_from"] = Status(row.archived_from) if row.archived_from else None
    fields["usage"] = Usage.model_validate(row.usage)
    fields["question"] = JobQuestion.model_validate(row.question) if row.question else None
    fields["merge_limits"] = MergeLimits.model_validate(row.merge_limits) if row.merge_limits else None
    fields["risk"] = [Risk(RiskKind(each["kind"]), each["text"]) for each in row.risk]
    fields["created_by"] = Creator.model_validate(row.created_by) if row.created_by else None
    fields["second_look"] = JobSecondLook.model_validate(row.second_look) if row.second_look else None
    return Job(**fields)


def store_job(database: Database, tx: Connection, job: Job, data: str) -> None:
    """Stores a new job. The caller stores its first message, which has this data, and then its first run."""
    models = {"usage": job.usage, "created_by": job.created_by, "merge_limits": job.merge_limits}
    creator = job.created_by
    row = {**vars(job), **{name: value and value.model_dump() for name, value in models.items()}}
    row |= {"creator_kind": creator and creator.kind, "creator_id": creator and creator.id}
    new_events = [NewEvent(EventKind.QUEUED, {"prompt": job.prompt}), *describe_data(data)]
    tx.execute(INSERT_JOB, {**row, "last_event": len(new_events)})
    append_events(database, tx, job.id, 1, job.created_at, new_events)


def describe_data(data: str) -> list[NewEvent]:
    """Returns the event with the data that Copydesk collected for a message; none without data."""
    return [NewEvent(EventKind.DATA, {"text": data})] if data else []


def get_job_for_update(tx: Connection, job_id: str) -> Job | None:
    """Returns the job, or None, and locks its row until the transaction ends.

    SQLAlchemy leaves FOR UPDATE out on SQLite, where the write transaction already locks the whole database."""
    row = tx.execute(SELECT_JOB_FOR_UPDATE, {"job": job_id}).first()
    return job_from_row(row) if row else None


def update_job(database: Database, tx: Connection, job_id: str, new_events: Sequence[NewEvent], **values: Any) -> None:
    """Updates the job and appends events. The update locks the job's row, so event numbers have no gaps."""
    now = clock.now()
    new_values = {f"new_{name}": value for name, value in values.items()}
    statement = _build_update(tuple(sorted(values)))
    last_event: int = tx.execute(
        statement, {"job": job_id, "new_events": len(new_events), "now": now, **new_values}
    ).scalar_one()
    if not STATE_COLUMNS.isdisjoint(values):
        tx.execute(UPDATE_REVIEW_STATE, {"job": job_id})
    if new_events:
        append_events(database, tx, job_id, last_event - len(new_events) + 1, now, new_events)


def append_events(
    database: Database, tx: Connection, job_id: str, first_seq: int, at: int, new_events: Sequence[NewEvent]
) -> None:
    rows = [
        {"job_id": job_id, "seq": first_seq + number, "at": at, "kind": event.kind.value, "data": event.data}
        for number, event in enumerate(new_events)
    ]
    tx.execute(INSERT_EVENT, rows)
    database.notify(tx, job_topic(job_id))


def archive_job(database: Database, tx: Connection, job: Job, pull_state: PullState | None = None) -> None:
    """Archives the job; does nothing when it is archived already. The caller stops an active job first.

    `pull_state` is the state of the pull request that is the reason; it is recorded in both cases.
    """
    if job.status is ARCHIVED:
        if pull_state not in (None, job.pull_state):
            update_job(database, tx, job.id, [], pull_state=pull_state)
            record_pull_event(database, tx, job, pull_state)
        return
    previous_status = FAILED if job.status is ACTIVE else job.status
    values = {
        "status": check_transition(previous_status, ARCHIVED),
        "archived_from": previous_status,
        "archived_at": clock.now(),
        "pull_state": pull_state or job.pull_state,
    }
    update_job(database, tx, job.id, [NewEvent(EventKind.ARCHIVED, {"from": previous_status})], **values)
    record_pull_event(database, tx, job, pull_state)
    record_job_event(database, tx, job.id, EventType.JOB_ARCHIVED)


def record_pull_event(database: Database, tx: Connection, job: Job, pull_state: PullState | None) -> None:
    """Records for webhooks that the job's pull request has a new state, unless it has the state of `job`."""
    event_type = find_pull_event(job.pull_state, pull_state)
    if event_type is not None and job.pr_link is not None:
        record_job_event(database, tx, job.id, event_type)


def record_job_event(database: Database, tx: Connection, job_id: str, event_type: EventType, **details: Any) -> None:
    """Records an event for the project's webhooks, with the job as this transaction leaves it."""

    def build_data() -> dict[str, Any]:
        return {"job": describe_job(job_from_row(tx.execute(SELECT_JOB, {"job": job_id}).one())), **details}

    project_id = tx.execute(SELECT_PROJECT_OF_JOB, {"job": job_id}).scalar_one()
    record_event(database, tx, project_id, event_type, job_id, build_data, order_key=job_id)


@cache
def _build_update(names: tuple[str, ...]) -> Update:
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    event_values = {"last_event": jobs.c.last_event + bindparam("new_events"), "updated_at": bindparam("now")}
    statement = update(jobs).where(jobs.c.id == bindparam("job")).values({**values, **event_values})
    return statement.returning(jobs.c.last_event)


@cache
def insert_at_database_time(table: Table, clock_sql: str) -> Insert:
    """Returns an insert that sets created_at from the database's clock, so that rows of all machines are in order."""
    return insert(table).values(created_at=literal_column(clock_sql))


def enqueue_run(database: Database, tx: Connection, job_id: str, project_id: str, number: int) -> None:
    run: dict[str, Any] = {
        "id": new_id("run"),
        "job_id": job_id,
        "project_id": project_id,
        "number": number,
        "state": "queued",
        "version": WORKFLOW_VERSION,
        "attempt": 0,
        "crashes": 0,
    }
    tx.execute(insert_at_database_time(runs, database.clock_sql), run)
    save_trace_parent(tx, run["id"])
    database.notify(tx, QUEUE_TOPIC)


def save_changed_files_in(tx: Connection, job_id: str, patches: "Sequence[FilePatch]") -> None:
    """Replaces the stored list of files that the job has changed so far, in the caller's transaction."""
    tx.execute(delete(job_files).where(job_files.c.job_id == job_id))
    if patches:
        rows = [
            {
                "job_id": job_id,
                "path": patch.path,
                "change": patch.change,
                "previous": patch.previous,
                "additions": patch.additions,
                "deletions": patch.deletions,
                "patch": patch.data,
            }
            for patch in patches
        ]
        tx.execute(insert(job_files), rows)
