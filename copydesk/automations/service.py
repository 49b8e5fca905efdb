"""The operations on automations that clients call: create, get, list, change, delete, run, and list the runs."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError
from sqlalchemy import Connection, func, select

from copydesk.automations.automation import Automation, AutomationRun, TriggerEvent
from copydesk.automations.definition import AutomationDefinition, ScheduleTrigger
from copydesk.automations.firing import (
    AutomationFiring,
    AutomationNotFound,
    Fired,
    FiredMeanwhile,
    build_prompt,
    find_fired,
    is_enabled,
)
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
from copydesk.core.ids import derive_from_id, is_id, new_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project
from copydesk.jobs.service import Jobs
from copydesk.jobs.storage.context_names import lock_context_names, validate_context_names
from copydesk.jobs.storage.idempotency_keys import claim_idempotency_key, find_idempotent_result

MAX_AUTOMATIONS_PER_PROJECT = 100
SCHEDULE_FIELDS = ("trigger", "enabled")


class AutomationDisabled(InvalidRequest):
    code = "automation_disabled"
    message = "The automation is not enabled."


class TooManyAutomations(Conflict):
    code = "too_many_automations"
    message = f"A project can have {MAX_AUTOMATIONS_PER_PROJECT} automations. Delete one first."


class AutomationInFile(Conflict):
    code = "automation_in_file"
    message = "This automation is defined by a file of the repository. Change the file instead."


class AutomationWithRun(NamedTuple):
    automation: Automation
    last_run: AutomationRun | None


class WatchStart(Protocol):
    """Finds where an automation begins to watch its repositories, so that every later commit starts a run."""

    def read(self, project: Project, automation: Automation) -> Mapping[str, Any]:
        """Asks the repositories for their commits and tags, before the transaction."""

    def store_in(
        self, tx: Connection, old: Automation | None, automation: Automation, points: Mapping[str, Any]
    ) -> None:
        """Stores them in the transaction that creates or changes the automation."""


class Automations:
    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        signals: ReaderSignals | None = None,
        watch_start: WatchStart | None = None,
    ) -> None:
        """`signals` reads what readers tell; without it, runs about such signals have nothing to do.

        Without `watch_start`, an automation begins with the first look at its repositories.
        """
        self.database = database
        self.jobs = jobs
        self.watch_start = watch_start
        self.firing = AutomationFiring(database, jobs, signals)

    def create(self, project: Project, values: Mapping[str, Any], *, actor: str, nonce: str = "") -> Automation:
        """Creates an automation from the fields of its definition. InvalidRequest names each invalid field.

        With a nonce, an ID that was never used, the same fields create one automation however often they are sent.
        """
        now = clock.now()
        definition = parse_definition(values)
        next_slot = plan_next_slot(definition, now)
        content = f"{project.id} {definition.model_dump_json()}"
        automation_id = derive_from_id(nonce, content) if is_id(nonce, "auto") else new_id("auto")
        automation = Automation(automation_id, project.id, definition, next_slot, None, now, now)
        self.check_model(project, automation)
        self._check_context(project, values)
        points = self.watch_start.read(project, automation) if self.watch_start else {}
        count = select(func.count()).where(automations.c.project_id == project.id)
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            is_first = tx.execute(SELECT_AUTOMATION, {"id": automation.id}).first() is None
            if is_first and tx.execute(count).scalar_one() >= MAX_AUTOMATIONS_PER_PROJECT:
                raise TooManyAutomations
            _lock_watched(tx, project, definition)
            if not insert_automation(tx, automation):
                return automation_from_row(tx.execute(SELECT_AUTOMATION, {"id": automation.id}).one())
            if self.watch_start:
                self.watch_start.store_in(tx, None, automation, points)
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
        query = select(automations).where(automations.c.project_id == project_id)
        query = query.order_by(automations.c.created_at, automations.c.id)
        with self.database.read() as tx:
            listed = [automation_from_row(row) for row in tx.execute(query)]
            last_runs = load_last_runs(tx, [automation.id for automation in listed])
        return [AutomationWithRun(automation, last_runs.get(automation.id)) for automation in listed]

    def change(self, project: Project, automation_id: str, values: Mapping[str, Any], *, actor: str) -> Automation:
        """Changes some fields of the definition. A new trigger counts from now on."""
        self._check_context(project, values)
        points = self._read_start(project, automation_id, values)
        now = clock.now()
        with self.database.write() as tx:
            old = lock_automation(tx, automation_id)
            if old is None or old.project_id != project.id:
                raise AutomationNotFound
            refuse_file_automation(project, old)
            definition = _merge_definition(old, values)
            changed = replace(old, definition=definition, notice=None, updated_at=now)
            if _has_new_trigger(old.definition, definition):
                changed = replace(changed, next_slot_at=plan_next_slot(definition, now))
            if definition.enabled or set(values) != {"enabled"}:  # anything can be switched off
                self.check_model(project, changed)
                _lock_watched(tx, project, definition)
            save_automation(tx, changed)
            if self.watch_start and _has_new_trigger(old.definition, definition):
                self.watch_start.store_in(tx, old, changed, points)
            details = {"name": old.definition.name, "fields": sorted(values)}
            audit_log.record(tx, project.id, actor, "automation.changed", automation_id, **details)
        return changed

    def _read_start(self, project: Project, automation_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Asks the repositories where a changed automation begins to watch; nothing if the trigger stays."""
        old = self.get(project.id, automation_id).automation
        definition = _merge_definition(old, values)
        if self.watch_start is None or not _has_new_trigger(old.definition, definition):
            return {}
        return self.watch_start.read(project, replace(old, definition=definition))

    def delete(self, project_id: str, automation_id: str, *, actor: str) -> None:
        """Deletes an automation with the list of its runs. Their jobs and pull requests stay."""
        _check_id(automation_id)
        project = self.firing.projects.get(project_id)
        with self.database.write() as tx:
            automation = lock_automation(tx, automation_id)
            if automation is None or automation.project_id != project.id:
                raise AutomationNotFound
            if project.policy.automation_files:  # or else the file is not read, and nothing else could delete it
                refuse_file_automation(project, automation)
            delete_automation(tx, automation_id)
            details = {"name": automation.definition.name}
            audit_log.record(tx, project.id, actor, "automation.deleted", automation_id, **details)

    def run_now(
        self,
        project: Project,
        automation_id: str,
        *,
        actor: str,
        requester: str = "",
        require_enabled: bool = False,
        idempotency_key: str | None = None,
    ) -> Fired:
        """Starts a run on request. Raises LimitReached if a limit of the automation or the project is reached.

        The prompt names the requester, by default the actor; a person's email address stays in the audit log. Returns
        the earlier run when the same request was sent before with this idempotency key.
        """
        automation = self.get(project.id, automation_id).automation
        definition = automation.definition
        with self.database.read() as tx:
            if earlier := _find_requested(tx, project.id, automation_id, idempotency_key):
                return earlier
        if require_enabled and not is_enabled(project, automation):
            raise AutomationDisabled
        request_id = new_id("req")
        event = TriggerEvent(f"request:{request_id}", f"Started by {requester or actor}.")

        def record_request(tx: Connection) -> None:
            if idempotency_key is not None:
                digest = _digest_request(automation_id)
                if claim_idempotency_key(tx, project.id, idempotency_key, digest, request_id) is not None:
                    raise FiredMeanwhile  # by the same request, sent twice at once
            started = find_fired(tx, automation_id, event.key)
            if started is not None:
                details = {"name": definition.name, "job": started.job_id}
                audit_log.record(tx, project.id, actor, "automation.run", automation_id, **details)

        fired = self.firing.fire(project, automation_id, event, on_request=True, then=record_request)
        if fired is None:
            with self.database.write() as tx:  # not `read`: the other request's transaction may not be committed yet
                fired = _find_requested(tx, project.id, automation_id, idempotency_key)
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

    def check_model(self, project: Project, automation: Automation) -> None:
        """Raises InvalidRequest if the project cannot use the model, or the model cannot do the kind."""
        models = self.jobs.allowed_models(project)
        model = automation.definition.model or models[0]
        if model not in models:
            detail = f"This project cannot use the model '{model[:80]}'. Use one of: {', '.join(models)}."
            raise InvalidRequest(detail, details=[ErrorDetail("model", detail)])
        build_prompt(automation, model)

    def _check_context(self, project: Project, values: Mapping[str, Any]) -> None:
        """Raises InvalidRequest for a context repository that the project does not have."""
        names = values.get("context")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return  # all of them, or invalid in another way
        try:
            validate_context_names(self.database, project.id, names)
        except InvalidRequest as error:
            raise InvalidRequest(error.message, details=[ErrorDetail("context", error.message)]) from None


def _lock_watched(tx: Connection, project: Project, definition: AutomationDefinition) -> None:
    """Keeps the repositories of the trigger until the automation is stored. Raises InvalidRequest if one is unknown."""
    try:
        lock_context_names(tx, project.id, definition.watched_names)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, details=[ErrorDetail("trigger.repositories", error.message)]) from None


def refuse_file_automation(project: Project, automation: Automation) -> None:
    """Raises AutomationInFile if a file defines the automation, which can then only be changed there."""
    if automation.source is not None:
        raise AutomationInFile(
            f"This automation is defined in {automation.source.file} on the branch {project.ref}. Change the file "
            "instead."
        )


def _merge_definition(old: Automation, values: Mapping[str, Any]) -> AutomationDefinition:
    return parse_definition({**old.definition.model_dump(mode="json", by_alias=True), **values})


def _has_new_trigger(old: AutomationDefinition, new: AutomationDefinition) -> bool:
    return any(getattr(new, name) != getattr(old, name) for name in SCHEDULE_FIELDS)


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


def _find_requested(tx: Connection, project_id: str, automation_id: str, key: str | None) -> Fired | None:
    """Returns the run of the request that used the idempotency key before, or None."""
    request_id = find_idempotent_result(tx, project_id, key, _digest_request(automation_id)) if key else None
    return find_fired(tx, automation_id, f"request:{request_id}") if request_id is not None else None


def _digest_request(automation_id: str) -> str:
    """Returns what an idempotency key stands for: a run of this automation, by either route."""
    return hashlib.sha256(f"run {automation_id}".encode()).hexdigest()


def plan_next_slot(definition: AutomationDefinition, now: int) -> int | None:
    """Returns the first slot of an enabled schedule after this time, or None."""
    trigger = definition.trigger
    if not definition.enabled or not isinstance(trigger, ScheduleTrigger):
        return None
    return find_next_slot(trigger.cron, trigger.timezone, now)


def _check_id(automation_id: str) -> None:
    if not is_id(automation_id, "auto"):
        raise AutomationNotFound
