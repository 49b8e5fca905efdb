"""The operations on automations that clients call: create, get, list, change, delete, run, and list the runs."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, func, select

from copydesk.automations.automation import Automation, AutomationRun, TriggerEvent
from copydesk.automations.definition import AutomationDefinition, ScheduleTrigger
from copydesk.automations.firing import AutomationFiring, AutomationNotFound, Fired, build_prompt, find_fired
from copydesk.automations.reader_signals import ReaderSignals
from copydesk.automations.records import (
    SELECT_AUTOMATION,
    automation_from_row,
    delete_automation,
    find_existing_ids,
    insert_automation,
    load_last_runs,
    load_runs,
    lock_automation,
    save_automation,
    select_runs,
)
from copydesk.automations.schedule import find_next_slot
from copydesk.automations.tables import automation_runs, automations
from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.errors import Conflict, ErrorDetail, InvalidRequest
from copydesk.core.ids import is_id, new_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project
from copydesk.jobs.service import Jobs

MAX_AUTOMATIONS_PER_PROJECT = 100
SCHEDULE_FIELDS = ("trigger", "enabled")


class AutomationDisabled(InvalidRequest):
    code = "automation_disabled"
    message = "The automation is not enabled."


class TooManyAutomations(Conflict):
    code = "too_many_automations"
    message = f"A project can have {MAX_AUTOMATIONS_PER_PROJECT} automations. Delete one first."


class AutomationWithRun(NamedTuple):
    automation: Automation
    last_run: AutomationRun | None


class Automations:
    def __init__(self, database: Database, jobs: Jobs, signals: ReaderSignals | None = None) -> None:
        """`signals` reads what readers tell; without it, runs about such signals have nothing to do."""
        self.database = database
        self.jobs = jobs
        self.firing = AutomationFiring(database, jobs, signals)

    def create(self, project: Project, values: Mapping[str, Any], *, actor: str) -> Automation:
        """Creates an automation from the fields of its definition. InvalidRequest names each invalid field."""
        now = clock.now()
        definition = parse_definition(values)
        next_slot = _plan_next_slot(definition, now)
        automation = Automation(new_id("auto"), project.id, definition, next_slot, None, now, now)
        self._check_model(project, automation)
        count = select(func.count()).where(automations.c.project_id == project.id)
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            if tx.execute(count).scalar_one() >= MAX_AUTOMATIONS_PER_PROJECT:
                raise TooManyAutomations
            insert_automation(tx, automation)
            details = {"name": definition.name, "kind": definition.kind}
            audit_log.record(tx, project.id, actor, "automation.created", automation.id, **details)
        return automation

    def get(self, project_id: str, automation_id: str) -> AutomationWithRun:
        _check_id(automation_id)
        with self.database.read() as tx:
            row = tx.execute(SELECT_AUTOMATION, {"id": automation_id}).first()
            if row is None or row.project_id != project_id:
                raise AutomationNotFound
            return AutomationWithRun(automation_from_row(row), load_last_runs(tx, [automation_id]).get(automation_id))

    def find_existing_ids(self, ids: Collection[str]) -> set[str]:
        """Returns those of these IDs whose automation was not deleted."""
        with self.database.read() as tx:
            return find_existing_ids(tx, ids)

    def list_for_project(self, project_id: str) -> list[AutomationWithRun]:
        """Returns the project's automations, oldest first."""
        query = select(automations).where(automations.c.project_id == project_id).order_by(automations.c.id)
        with self.database.read() as tx:
            listed = [automation_from_row(row) for row in tx.execute(query)]
            last_runs = load_last_runs(tx, [automation.id for automation in listed])
        return [AutomationWithRun(automation, last_runs.get(automation.id)) for automation in listed]

    def change(self, project: Project, automation_id: str, values: Mapping[str, Any], *, actor: str) -> Automation:
        """Changes some fields of the definition. A new trigger counts from now on."""
        _check_id(automation_id)
        now = clock.now()
        with self.database.write() as tx:
            old = lock_automation(self.database, tx, automation_id)
            if old is None or old.project_id != project.id:
                raise AutomationNotFound
            definition = parse_definition({**old.definition.model_dump(mode="json", by_alias=True), **values})
            changed = replace(old, definition=definition, notice=None, updated_at=now)
            if any(getattr(definition, name) != getattr(old.definition, name) for name in SCHEDULE_FIELDS):
                changed = replace(changed, next_slot_at=_plan_next_slot(definition, now))
            if definition.enabled or set(values) != {"enabled"}:  # anything can be switched off
                self._check_model(project, changed)
            save_automation(tx, changed)
            details = {"name": old.definition.name, "fields": sorted(values)}
            audit_log.record(tx, project.id, actor, "automation.changed", automation_id, **details)
        return changed

    def delete(self, project_id: str, automation_id: str, *, actor: str) -> None:
        """Deletes an automation with the list of its runs. Their jobs and pull requests stay."""
        _check_id(automation_id)
        with self.database.write() as tx:
            automation = lock_automation(self.database, tx, automation_id)
            if automation is None or automation.project_id != project_id:
                raise AutomationNotFound
            delete_automation(tx, automation_id)
            details = {"name": automation.definition.name}
            audit_log.record(tx, project_id, actor, "automation.deleted", automation_id, **details)

    def run_now(
        self, project: Project, automation_id: str, *, actor: str, requester: str = "", require_enabled: bool = False
    ) -> Fired:
        """Starts a run on request. Raises LimitReached if a limit of the automation or the project is reached.

        The prompt names the requester, by default the actor; a person's email address stays in the audit log.
        """
        definition = self.get(project.id, automation_id).automation.definition
        if require_enabled and not definition.enabled:
            raise AutomationDisabled
        event = TriggerEvent(f"request:{new_id('req')}", f"Started by {requester or actor}.")

        def record_request(tx: Connection) -> None:
            started = find_fired(tx, automation_id, event.key)
            if started is not None:
                details = {"name": definition.name, "job": started.job_id}
                audit_log.record(tx, project.id, actor, "automation.run", automation_id, **details)

        fired = self.firing.fire(project, automation_id, event, on_request=True, then=record_request)
        assert isinstance(fired, Fired)
        return fired

    def get_run(self, run_id: str) -> AutomationRun:
        with self.database.read() as tx:
            [run] = load_runs(tx, select_runs().where(automation_runs.c.id == run_id))
        return run

    def list_runs(
        self, project_id: str, automation_id: str, limit: int = 20, cursor: str | None = None
    ) -> tuple[list[AutomationRun], str | None]:
        """Returns one page of runs, newest first, and the cursor of the next page; None means that there is none."""
        self.get(project_id, automation_id)
        query = select_runs().where(automation_runs.c.automation_id == automation_id).limit(limit + 1)
        if cursor is not None:
            query = query.where(automation_runs.c.id < cursor)
        with self.database.read() as tx:
            page = load_runs(tx, query)
        return page[:limit], page[limit - 1].id if len(page) > limit else None

    def _check_model(self, project: Project, automation: Automation) -> None:
        """Raises InvalidRequest if the project cannot use the model, or the model cannot do the kind."""
        models = self.jobs.allowed_models(project)
        model = automation.definition.model or models[0]
        if model not in models:
            detail = f"This project cannot use the model '{model[:80]}'. Use one of: {', '.join(models)}."
            raise InvalidRequest(detail, details=[ErrorDetail("model", detail)])
        build_prompt(automation, TriggerEvent("", ""), model)


def parse_definition(values: Mapping[str, Any]) -> AutomationDefinition:
    """Validates the fields of a definition. Raises InvalidRequest, which names each invalid field."""
    try:
        return AutomationDefinition.model_validate(dict(values))
    except ValidationError as error:
        details = [ErrorDetail(_name_field(fault), _describe_fault(fault)) for fault in error.errors()]
        message = " ".join(f"{detail.field}: {detail.message}" for detail in details)
        raise InvalidRequest(message, details=details) from None


def _name_field(fault: Any) -> str:
    """Returns the path to the field, without the name of the trigger's type, which the validation adds."""
    location = [str(part) for part in fault["loc"]]
    if location[:1] == ["trigger"]:
        location = ["trigger", *location[2:]]
    message = str(fault["msg"]).removeprefix("Value error, ")
    return ".".join(location) or message.partition(":")[0]


def _describe_fault(fault: Any) -> str:
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not fault["loc"]:
        message = message.partition(":")[2].strip() or message
    texts = {"missing": "is required", "extra_forbidden": "is not a field"}
    message = texts.get(fault["type"], message)
    return f"{message}." if not message.endswith(".") else message


def _plan_next_slot(definition: AutomationDefinition, now: int) -> int | None:
    trigger = definition.trigger
    if not definition.enabled or not isinstance(trigger, ScheduleTrigger):
        return None
    return find_next_slot(trigger.cron, trigger.timezone, now)


def _check_id(automation_id: str) -> None:
    if not is_id(automation_id, "auto"):
        raise AutomationNotFound
