"""Fires automations: one transaction marks the trigger as fired and puts a job, or a message to one, in the queue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, or_, select, update

from copydesk.automations.automation import Automation, Notice, NoticeCode, Outcome, TriggerEvent
from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.kinds import Kind
from copydesk.automations.limits import Hold, find_attention_hold, find_spending_hold
from copydesk.automations.reader_signals import (
    SIGNAL_KINDS,
    ReaderSignals,
    render_signals,
)
from copydesk.automations.records import (
    insert_run,
    load_runs,
    lock_automation,
    save_progress,
    select_runs,
)
from copydesk.automations.tables import automation_runs
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import Conflict, InvalidRequest, NotFound
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.project_events import EventType, record_event
from copydesk.core.projects.projects import Project, Projects
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.jobs.execution.journal import finish_job
from copydesk.jobs.job import (
    ACTIVE,
    COMPLETED,
    FAILED,
    Creator,
    CreatorKind,
    Job,
    JobOutcome,
    MergeLimits,
    Reason,
)
from copydesk.jobs.service import AddedMessage, Jobs, NewJob
from copydesk.jobs.storage.message_origins import MessageOrigin, save_origin
from copydesk.jobs.storage.records import get_job_for_update
from copydesk.jobs.storage.tables import jobs, messages, runs

MECHANIC = "mechanic"
AUTHORS = "authors"
"""Stands for the authors of the triggering change in a list of reviewers."""
SHOWN_HASH_CHARS = 12
FIRST_SIGNALS_MS = 30 * clock.DAY
"""How far back the first run reads reader signals."""
MAX_RUNS_SEARCHED = 50
FAILURE_NOTICES = (NoticeCode.INVALID, NoticeCode.REPOSITORY_UNAVAILABLE)
"""The reasons to wait that a person has to look at. The others pass by themselves."""
NO_SIGNALS = "Readers have told nothing new since the last run."


class AutomationNotFound(NotFound):
    code = "automation_not_found"
    message = "Automation not found in this project."


class LimitReached(TooManyRequests):
    """A limit of the automation or its project is reached. The message says which one; `Retry-After`, until when."""

    code = "automation_limit"
    message = "A limit of this automation is reached."


class RunActive(Conflict):
    """The run before is active, and a run of this kind cannot join it: its pages are compared when it begins."""

    code = "automation_running"
    message = "The run before is still active. Start the next one when it has ended."


class Fired(NamedTuple):
    run_id: str
    job_id: str
    headers: dict[str, str]
    """The headers of the rate limit; empty if the trigger had fired before."""
    is_new: bool


@dataclass(frozen=True)
class Held:
    """The run waits. The caller tries again later."""

    notice: Notice


@dataclass(frozen=True)
class AwaitedSignals:
    """The run can start, and is about what readers told. It starts when the caller has read that."""

    kind: Kind
    since: int


class FiredMeanwhile(Exception):
    """Another process fired the same trigger, or a run that covers it; the transaction must be rolled back."""


class AutomationFiring:
    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        signals: ReaderSignals | None = None,
    ) -> None:
        self.database = database
        self.jobs = jobs
        self.signals = signals
        self.projects = Projects(database)

    def fire(
        self,
        project: Project,
        automation_id: str,
        event: TriggerEvent,
        *,
        on_request: bool = False,
        nothing_to_do: str | None = None,
        then: Callable[[Connection], None] = lambda tx: None,
    ) -> Fired | Held | None:
        """Starts a run for this event, unless there is one already. Returns None if the automation is not enabled.

        With `on_request`, a person or program waits for the answer: raises LimitReached instead of returning Held, and
        continues a job that is still active. With `nothing_to_do`, a sentence that says why, the run ends at once as
        `no_changes`, without a model. `then` runs in the same transaction unless the run is held; it can raise
        FiredMeanwhile to undo the run.
        """
        try:
            result = self._fire_once(project, automation_id, event, on_request, nothing_to_do, then)
            if isinstance(result, AwaitedSignals):
                event, nothing_to_do = self._add_signals(project.id, event, result)
                result = self._fire_once(
                    project, automation_id, event, on_request, nothing_to_do, then, has_signals=True
                )
            assert not isinstance(result, AwaitedSignals)
            return result
        except FiredMeanwhile:
            with self.database.read() as tx:
                return find_fired(tx, automation_id, event.key)
        except TooManyRequests as refusal:
            if on_request:
                raise
            return self.hold(automation_id, Hold(NoticeCode.RATE_LIMIT, refusal.message))
        except InvalidRequest as refusal:
            if on_request:
                raise
            return self.hold(automation_id, Hold(NoticeCode.INVALID, refusal.message))

    def _fire_once(
        self,
        project: Project,
        automation_id: str,
        event: TriggerEvent,
        on_request: bool,
        nothing_to_do: str | None,
        then: Callable[[Connection], None],
        has_signals: bool = False,
    ) -> Fired | Held | AwaitedSignals | None:
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            result = self._fire_in(tx, project, automation_id, event, on_request, nothing_to_do, has_signals)
            if not isinstance(result, Held | AwaitedSignals):
                then(tx)
            return result

    def _add_signals(
        self, project_id: str, event: TriggerEvent, awaited: AwaitedSignals
    ) -> tuple[TriggerEvent, str | None]:
        """Returns the event with what readers told. The second part says that there is nothing to do, if nothing."""
        text = render_signals(self.signals, awaited.kind, project_id, awaited.since) if self.signals else None
        if text is None:
            return event, NO_SIGNALS
        return event._replace(details="\n\n".join(part for part in (event.details, text) if part)), None

    def _await_signals(
        self, tx: Connection, project: Project, automation: Automation, job: Job | None
    ) -> AwaitedSignals:
        """Returns what the run must know of readers: the time since the last run that did not fail.

        Raises InvalidRequest if the run cannot start, since reading signals takes long.
        """
        if job is None:
            self._build_job(project, automation)
        else:
            build_prompt(automation, job.model)
        query = select_runs().where(automation_runs.c.automation_id == automation.id).limit(MAX_RUNS_SEARCHED)
        earlier = [run for run in load_runs(tx, query) if run.outcome is not Outcome.FAILED]
        since = earlier[0].fired_at if earlier else clock.now() - FIRST_SIGNALS_MS
        return AwaitedSignals(automation.definition.kind, since)

    def _fire_in(
        self,
        tx: Connection,
        project: Project,
        automation_id: str,
        event: TriggerEvent,
        on_request: bool,
        nothing_to_do: str | None,
        has_signals: bool,
    ) -> Fired | Held | AwaitedSignals | None:
        automation = lock_automation(tx, automation_id)
        if automation is None or automation.project_id != project.id:
            raise AutomationNotFound
        if fired := find_fired(tx, automation.id, event.key):
            return fired
        if not is_enabled(project, automation) and not on_request:
            return None
        kind = automation.definition.kind
        event = event._replace(awaits_comparison=kind is Kind.STALE_PAGES)
        if nothing_to_do is not None:
            return self._end_at_once(tx, project, automation, event, nothing_to_do)
        job = self._lock_open_job(tx, automation)
        if job is not None and job.status is ACTIVE and not on_request:
            return Held(Notice(NoticeCode.RUNNING, "The run before is still active.", clock.now()))
        if job is not None and job.status is ACTIVE and event.awaits_comparison:
            raise RunActive
        if hold := _find_hold(tx, project, automation, job):
            if on_request:
                raise LimitReached(hold.text, headers=hold.headers)
            return self._save_notice(tx, automation, hold)
        if kind in SIGNAL_KINDS and not event.awaits_comparison and not has_signals:
            return self._await_signals(tx, project, automation, job)
        return self._start_run(tx, project, automation, event, job)

    def _start_run(
        self, tx: Connection, project: Project, automation: Automation, event: TriggerEvent, job: Job | None
    ) -> Fired:
        definition = automation.definition
        if job is None:
            job = self._build_job(project, automation)
            message = self.jobs.insert_job(tx, job, build_data(event))
        else:
            prompt = build_prompt(automation, job.model)
            message = self.jobs.insert_message(tx, job, prompt, _name_creator(automation), build_data(event))
        save_origin(tx, job.id, message.id, build_origin(definition, event))
        return self._record_run(tx, automation, event, job, message)

    def _build_job(self, project: Project, automation: Automation) -> Job:
        """Returns the job of a run, not stored yet. Raises InvalidRequest if it cannot run."""
        definition = automation.definition
        model = definition.model or self.jobs.allowed_models(project)[0]
        new_job = NewJob(
            build_prompt(automation, model),
            model=definition.model,
            draft=definition.draft,
            context=definition.context,
            reviewers=[name for name in definition.reviewers if name != AUTHORS],
            merge_limits=_read_merge_limits(definition),
        )
        return self.jobs.build_job(project, new_job, _name_creator(automation), automation.id)

    def _end_at_once(
        self, tx: Connection, project: Project, automation: Automation, event: TriggerEvent, reason: str
    ) -> Fired:
        """Stores a run that ended without a change. No worker sees it, since it is queued and done at once."""
        definition = automation.definition
        new_job = NewJob(definition.prompt or definition.defaults.prompt, model=definition.model)
        job = self.jobs.build_job(project, new_job, _name_creator(automation), automation.id)
        message = self.jobs.insert_job(tx, job)
        done = (
            update(runs).where(runs.c.job_id == job.id).values(state="done", reason=Reason.NO_CHANGES, message=reason)
        )
        run_id = tx.execute(done.returning(runs.c.id)).scalar_one()
        tx.execute(update(messages).where(messages.c.job_id == job.id).values(run_id=run_id))
        finish_job(self.database, tx, job.id, JobOutcome(COMPLETED, Reason.NO_CHANGES, reason))
        return self._record_run(tx, automation, event, job, message, ended_at_once=True)

    def _record_run(
        self,
        tx: Connection,
        automation: Automation,
        event: TriggerEvent,
        job: Job,
        message: AddedMessage,
        ended_at_once: bool = False,
    ) -> Fired:
        run_id = insert_run(tx, automation.id, event, job, message.id, ended_at_once)
        if run_id is None:
            raise FiredMeanwhile
        if automation.notice is not None:
            save_progress(tx, automation.id, notice=None)
        return Fired(run_id, job.id, message.headers, is_new=True)

    def _lock_open_job(self, tx: Connection, automation: Automation) -> Job | None:
        """Returns the newest job of the automation that is active or has an open pull request, locked, if runs append.

        Leaves out a job that waits for an answer, since a further run would take its question back.
        """
        if automation.definition.grouping != "append":
            return None
        has_open_pull = jobs.c.status.in_((COMPLETED, FAILED)) & (jobs.c.pull_state == "open")
        is_open = or_(jobs.c.status == ACTIVE, has_open_pull & (jobs.c.reason.is_distinct_from(Reason.QUESTION)))
        newest = select(jobs.c.id).where(jobs.c.automation_id == automation.id, is_open).order_by(jobs.c.id.desc())
        job_id = tx.execute(newest.limit(1)).scalar()
        job = get_job_for_update(tx, job_id) if job_id else None
        return job if job is not None and _is_open(job) else None

    def is_held(self, project: Project, automation_id: str) -> bool:
        """Returns whether a run would only go on waiting: the caller need not collect what it would be about."""
        with self.database.write() as tx:
            automation = lock_automation(tx, automation_id)
            if automation is None:
                return False
            job = self._lock_open_job(tx, automation)
            if job is not None and job.status is ACTIVE:
                return True
            hold, notice = _find_hold(tx, project, automation, job), automation.notice
            return hold is not None and notice is not None and (hold.code, hold.text) == (notice.code, notice.text)

    def hold(self, automation_id: str, hold: Hold) -> Held | None:
        """Stores why the next run waits."""
        with self.database.write() as tx:
            automation = lock_automation(tx, automation_id)
            return self._save_notice(tx, automation, hold) if automation else None

    def _save_notice(self, tx: Connection, automation: Automation, hold: Hold) -> Held:
        """Stores why the run waits, when it begins to wait. Keeps the time of a notice that says the same."""
        code, text, _ = hold
        if automation.notice is not None and (automation.notice.code, automation.notice.text) == (code, text):
            return Held(automation.notice)
        notice = Notice(code, text, clock.now())
        save_progress(tx, automation.id, notice=vars(notice))
        if code in FAILURE_NOTICES and (automation.notice is None or automation.notice.code != code):
            record_event(
                self.database,
                tx,
                automation.project_id,
                EventType.AUTOMATION_FAILED,
                automation.id,
                lambda: describe_failure(automation, notice),
            )
        return Held(notice)


def _find_hold(tx: Connection, project: Project, automation: Automation, job: Job | None) -> Hold | None:
    """Returns the limit that a run must wait for, or None. Only a run without a job may open a pull request."""
    hold = find_spending_hold(tx, automation)
    return find_attention_hold(tx, project) if hold is None and job is None else hold


def describe_failure(automation: Automation, notice: Notice) -> dict[str, Any]:
    """Returns the data of the event `automation.failed` for a run that could not start."""
    identity = {"id": automation.id, "name": automation.definition.name}
    return {"automation": identity, "reason": notice.code.value, "message": notice.text, "job": None}


def is_enabled(project: Project, automation: Automation) -> bool:
    """Returns whether triggers start runs. One of a file stops as soon as the project does not read files any more."""
    return automation.definition.enabled and (automation.source is None or project.policy.automation_files)


def build_prompt(automation: Automation, model: str) -> str:
    """Returns the prompt of a run: the words of the kind and of the automation's author, who may allow things by them.

    The mechanic gets only an instruction that it understands. Raises InvalidRequest if the kind needs a language model
    and the run would use the mechanic.
    """
    definition = automation.definition
    defaults = definition.defaults
    if model != MECHANIC:
        return "\n\n".join(part for part in (defaults.prompt, definition.prompt) if part)
    if prompt := "\n".join(part for part in (defaults.mechanic_prompt, definition.prompt) if part):
        return prompt
    raise InvalidRequest(
        f"The mechanic cannot do '{definition.kind}'. Choose a language model for the automation or the project."
    )


def build_data(event: TriggerEvent) -> str:
    """Returns what Copydesk collected for a run: what started it, and the changes or what readers told."""
    return "\n\n".join(part for part in (event.text, event.details) if part)


def build_origin(definition: AutomationDefinition, event: TriggerEvent) -> MessageOrigin:
    """Describes what started a run, for the texts of its pull request."""
    commit_count = sum(map(len, event.commits.values()))
    ranges = ", ".join(_list_ranges(event)) if commit_count > len(event.newest_commits) else ""
    return MessageOrigin(
        automation=definition.name,
        text=f"{event.text.removesuffix('.')} ({ranges})." if ranges else event.text,
        commits={name: list(commits) for name, commits in event.commits.items() if commits},
        newest_commits=list(event.newest_commits),
        asks_authors=AUTHORS in definition.reviewers,
        awaits_comparison=event.awaits_comparison,
    )


def _list_ranges(event: TriggerEvent) -> list[str]:
    """Returns the range of commits in each changed repository; nothing for a trigger without commits."""
    ranges = []
    for name in event.commits:
        before, after = event.data.get("before", {}).get(name, {}), event.data.get("after", {}).get(name, {})
        ranges += [
            f"{name} {before[ref][:SHOWN_HASH_CHARS]}..{commit[:SHOWN_HASH_CHARS]}".strip()
            for ref, commit in after.items()
            if ref in before
        ]
    return ranges


def _name_creator(automation: Automation) -> Creator:
    return Creator(kind=CreatorKind.AUTOMATION, name=automation.definition.name, id=automation.id)


def _read_merge_limits(definition: AutomationDefinition) -> MergeLimits | None:
    if definition.mode != "merge":
        return None
    return MergeLimits(paths=tuple(definition.paths), max_lines=definition.max_lines)


def _is_open(job: Job) -> bool:
    """Returns whether a run can continue this job."""
    has_open_pull = job.pr_link is not None and job.pull_state == "open" and job.status in (COMPLETED, FAILED)
    return job.status is ACTIVE or (has_open_pull and job.reason is not Reason.QUESTION)


def find_fired(tx: Connection, automation_id: str, key: str) -> Fired | None:
    """Returns the run of this key, or None."""
    query = select(automation_runs.c.id, automation_runs.c.job_id).where(
        automation_runs.c.automation_id == automation_id, automation_runs.c.key == key
    )
    row = tx.execute(query).first()
    return Fired(row.id, row.job_id, {}, is_new=False) if row else None
