"""Functions that read and write automations and their runs within the caller's transaction."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, null, select, update

from copydesk.automations.automation import (
    Automation,
    AutomationRun,
    FileSource,
    Notice,
    NoticeCode,
    Outcome,
    TriggerEvent,
    judge_outcome,
)
from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.tables import automation_runs, automation_sources, automations
from copydesk.core import clock
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.ids import new_id
from copydesk.jobs.job import Job
from copydesk.jobs.storage.records import job_from_row
from copydesk.jobs.storage.tables import jobs, messages, runs

SELECT_AUTOMATION = select(automations).where(automations.c.id == bindparam("id"))


def automation_from_row(row: Row[Any]) -> Automation:
    notice = Notice(**{**row.notice, "code": NoticeCode(row.notice["code"])}) if row.notice else None
    return Automation(
        id=row.id,
        project_id=row.project_id,
        definition=AutomationDefinition.from_stored(row.definition),
        next_slot_at=row.next_slot_at,
        notice=notice,
        created_at=row.created_at,
        updated_at=row.updated_at,
        source=FileSource(**row.source) if row.source else None,
    )


def lock_automation(tx: Connection, automation_id: str) -> Automation | None:
    """Returns the automation, or None, and locks its row: it fires in one transaction at a time.

    Lock an automation before a job, and a job before its project.
    """
    row = tx.execute(SELECT_AUTOMATION.with_for_update(), {"id": automation_id}).first()
    return automation_from_row(row) if row else None


def lock_automations_of_project(tx: Connection, project_id: str) -> None:
    """Locks the automations of a project that is deleted, so that none fires while its jobs are deleted."""
    same_project = select(automations.c.id).where(automations.c.project_id == project_id)
    tx.execute(same_project.order_by(automations.c.id).with_for_update())


def insert_automation(tx: Connection, automation: Automation) -> bool:
    """Stores a new automation. Returns False if there is one with its ID."""
    row = {"id": automation.id, "created_at": automation.created_at, **_to_values(automation)}
    return insert_if_absent(tx, automations, row)


def save_automation(tx: Connection, automation: Automation) -> None:
    tx.execute(update(automations).where(automations.c.id == automation.id).values(_to_values(automation)))


def _to_values(automation: Automation) -> dict[str, Any]:
    return {
        "project_id": automation.project_id,
        "definition": automation.definition.to_stored(),
        "enabled": automation.definition.enabled,
        "trigger_type": automation.definition.trigger.type,
        "next_slot_at": automation.next_slot_at,
        "notice": vars(automation.notice) if automation.notice else None,
        "updated_at": automation.updated_at,
        "source": vars(automation.source) if automation.source else None,
    }


def save_progress(tx: Connection, automation_id: str, **values: Any) -> None:
    """Updates `next_slot_at` or `notice`, which are no change by a person."""
    tx.execute(update(automations).where(automations.c.id == automation_id).values(**values))


def delete_automation(tx: Connection, automation_id: str) -> None:
    """Deletes the automation with its runs. Their jobs stay."""
    for table in (automation_sources, automation_runs):
        tx.execute(delete(table).where(table.c.automation_id == automation_id))
    tx.execute(delete(automations).where(automations.c.id == automation_id))


def insert_run(
    tx: Connection, automation_id: str, event: TriggerEvent, job: Job, message_id: str, ended_at_once: bool
) -> str | None:
    """Stores a run. Returns its ID, or None if there is one with the same key already."""
    row = {
        "id": new_id("arun"),
        "automation_id": automation_id,
        "key": event.key,
        "job_id": job.id,
        "message_id": message_id,
        "is_appended": has_other_message(tx, job.id, message_id),
        "trigger": {"text": event.text, **event.data},
        "fired_at": clock.now(),
        "ended_at_once": ended_at_once,
        "cost_before": job.usage.cost_usd or 0.0,
    }
    return str(row["id"]) if insert_if_absent(tx, automation_runs, row) else None


def move_runs(tx: Connection, job_id: str, message_ids: Sequence[str], new_job_id: str) -> None:
    """Moves the runs of these messages to a new job, which has them as its first ones."""
    is_moved = (automation_runs.c.job_id == job_id) & automation_runs.c.message_id.in_(message_ids)
    tx.execute(update(automation_runs).where(is_moved).values(job_id=new_job_id, is_appended=False, cost_before=0.0))


def has_other_message(tx: Connection, job_id: str, message_id: str) -> bool:
    """Returns whether the job has another message, so that this one continues it."""
    query = select(messages.c.id).where(messages.c.job_id == job_id, messages.c.id != message_id).limit(1)
    return tx.execute(query).first() is not None


def select_runs() -> Select[Any]:
    """Returns the query for runs, newest first, to which the caller adds a condition."""
    return (
        select(
            automation_runs,
            runs.c.state.label("run_state"),
            runs.c.reason.label("run_reason"),
            runs.c.message.label("run_message"),
        )
        .outerjoin(
            messages,
            (messages.c.job_id == automation_runs.c.job_id) & (messages.c.id == automation_runs.c.message_id),
        )
        .outerjoin(runs, runs.c.id == messages.c.run_id)
        .order_by(automation_runs.c.id.desc())
    )


def load_runs(tx: Connection, query: Select[Any]) -> list[AutomationRun]:
    rows = tx.execute(query).all()
    jobs_by_id = _load_jobs(tx, {row.job_id for row in rows})
    return [_run_from_row(row, jobs_by_id[row.job_id]) for row in rows]


def _load_jobs(tx: Connection, ids: set[str]) -> dict[str, Job]:
    return {row.id: job_from_row(row) for row in tx.execute(select(jobs).where(jobs.c.id.in_(ids)))} if ids else {}


def _run_from_row(row: Row[Any], job: Job) -> AutomationRun:
    outcome = judge_outcome(job, row.run_state, row.run_reason)
    return AutomationRun(
        id=row.id,
        automation_id=row.automation_id,
        key=row.key,
        job_id=row.job_id,
        message_id=row.message_id,
        is_appended=row.is_appended,
        trigger=row.trigger,
        fired_at=row.fired_at,
        outcome=outcome,
        message=row.run_message if outcome in (Outcome.FAILED, Outcome.NOTHING_TO_DO) else None,
        pr_link=job.pr_link,
    )


def find_names_watching(tx: Connection, project_id: str, repository: str) -> list[str]:
    """Returns the names of the automations whose trigger names this context repository.

    Leaves out those of files: they are paused when their repository is gone, and say so.
    """
    query = select(automations).where(automations.c.project_id == project_id, automations.c.source.is_(null()))
    listed = [automation_from_row(row).definition for row in tx.execute(query.order_by(automations.c.id))]
    return [definition.name for definition in listed if repository in definition.watched_names]


def find_existing_ids(tx: Connection, ids: Collection[str]) -> set[str]:
    """Returns those of these IDs that belong to an automation."""
    if not ids:
        return set()
    return set(tx.execute(select(automations.c.id).where(automations.c.id.in_(ids))).scalars())


def load_last_runs(tx: Connection, automation_ids: Sequence[str]) -> dict[str, AutomationRun]:
    """Returns the newest run of each of these automations that has one."""
    if not automation_ids:
        return {}
    newest = (
        select(func.max(automation_runs.c.id))
        .where(automation_runs.c.automation_id.in_(automation_ids))
        .group_by(automation_runs.c.automation_id)
    )
    query = select_runs().where(automation_runs.c.id.in_(newest))
    return {run.automation_id: run for run in load_runs(tx, query)}
