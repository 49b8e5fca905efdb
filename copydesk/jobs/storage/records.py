"""Jobs, events and changed files as rows, for use within a caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Insert, Row, Table, Update, bindparam, delete, insert, literal_column, select, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.ids import new_id
from copydesk.jobs.job import Job, Phase, Reason, Status, Usage
from copydesk.jobs.storage.run_traces import save_trace_parent
from copydesk.jobs.storage.tables import events, job_files, jobs, runs

if TYPE_CHECKING:
    from copydesk.jobs.workspace.patches import FilePatch

QUEUE = "queue"
STOP = "stop"
WORKFLOW_VERSION = 1

# Statements are made once: making one costs as much as running it.
JOB = select(jobs).where(jobs.c.id == bindparam("job"))
JOB_FOR_UPDATE = JOB.with_for_update()
NEW_EVENT = insert(events)


def job_topic(job_id: str) -> str:
    return f"job:{job_id}"


@dataclass(frozen=True)
class Event:
    seq: int
    at: int
    kind: str
    data: dict[str, Any]


class Progress(NamedTuple):
    """How far a job is."""

    status: Status
    last_event: int


class EventKind(StrEnum):
    """The kinds of a job's events. They are stored, and part of the API."""

    QUEUED = "queued"
    MESSAGE = "message"
    PHASE = "phase"
    RESUMED = "resumed"
    THOUGHT = "thought"
    TOOL = "tool"
    CHECKED = "checked"
    WAITING = "waiting"
    PUSHED = "pushed"
    PULL_REQUEST = "pull_request"
    FINISHED = "finished"
    ARCHIVED = "archived"
    UNARCHIVED = "unarchived"


class NewEvent(NamedTuple):
    """An event that is not stored yet."""

    kind: EventKind
    data: dict[str, Any]


def job_of(row: Row[Any]) -> Job:
    fields = dict(row._mapping)
    fields["status"], fields["phase"] = Status(row.status), Phase(row.phase)
    fields["reason"] = Reason(row.reason) if row.reason else None
    fields["archived_from"] = Status(row.archived_from) if row.archived_from else None
    fields["usage"] = Usage.model_validate(row.usage)
    return Job(**fields)


def locked(database: Database, tx: Connection, job_id: str) -> Job | None:
    """The job, held until the transaction ends. (SQLite's write transaction holds everything.)"""
    row = tx.execute(JOB if database.is_sqlite else JOB_FOR_UPDATE, {"job": job_id}).first()
    return job_of(row) if row else None


def change(database: Database, tx: Connection, job_id: str, new_events: Sequence[NewEvent], **values: Any) -> None:
    """Updates the job and appends its events, numbered without gaps because the job's row is held meanwhile."""
    now = clock.now()
    new = {f"new_{name}": value for name, value in values.items()}
    statement = _update(tuple(sorted(values)))
    last: int = tx.execute(statement, {"job": job_id, "new_events": len(new_events), "now": now, **new}).scalar_one()
    if new_events:
        append(database, tx, job_id, last - len(new_events) + 1, now, new_events)


def append(
    database: Database, tx: Connection, job_id: str, first: int, at: int, new_events: Sequence[NewEvent]
) -> None:
    rows = [
        {"job_id": job_id, "seq": first + number, "at": at, "kind": event.kind.value, "data": event.data}
        for number, event in enumerate(new_events)
    ]
    tx.execute(NEW_EVENT, rows)
    database.notify(tx, job_topic(job_id))


@cache
def _update(names: tuple[str, ...]) -> Update:
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    appended = {"last_event": jobs.c.last_event + bindparam("new_events"), "updated_at": bindparam("now")}
    changed = update(jobs).where(jobs.c.id == bindparam("job")).values({**values, **appended})
    return changed.returning(jobs.c.last_event)


@cache
def stamped(table: Table, clock: str) -> Insert:
    """A new row made at the database's time, so that rows of several machines are in the order they came."""
    return insert(table).values(created_at=literal_column(clock))


def enqueue(database: Database, tx: Connection, job_id: str, project_id: str, number: int) -> None:
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
    tx.execute(stamped(runs, database.clock), run)
    save_trace_parent(tx, run["id"])
    database.notify(tx, QUEUE)


def keep_files(tx: Connection, job_id: str, changed: "Sequence[FilePatch]") -> None:
    """What the job changed so far, by file."""
    tx.execute(delete(job_files).where(job_files.c.job_id == job_id))
    if changed:
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
            for patch in changed
        ]
        tx.execute(insert(job_files), rows)
