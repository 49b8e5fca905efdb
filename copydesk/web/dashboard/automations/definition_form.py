"""The form that creates or changes an automation."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated
from zoneinfo import available_timezones

from fastapi import APIRouter, Query, Response

from copydesk.automations.automation import Automation
from copydesk.automations.definition import MAX_OWN_PROMPT_CHARS, AutomationDefinition, ScheduleTrigger
from copydesk.automations.kinds import Kind
from copydesk.automations.service import refuse_file_automation
from copydesk.core.clock import now
from copydesk.core.errors import ErrorDetail, InvalidRequest, RequestError
from copydesk.core.ids import new_id
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.auth.access import EditorPost, EditorRequest, SignedInRequest
from copydesk.web.dashboard.automations.descriptions import KIND_CHOICES, describe_trigger
from copydesk.web.dashboard.automations.form_values import (
    CONTEXT_LABELS,
    GROUPING_LABELS,
    MODE_LABELS,
    TRIGGER_LABELS,
    FormValues,
    faults_by_input,
    values_for_kind,
    values_from_definition,
    values_from_form,
)
from copydesk.web.dashboard.automations.schedule_words import list_next_slots
from copydesk.web.dashboard.flash_messages import redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()
NEW_PATH = "/projects/{project_id}/automations/new"
EDIT_PATH = "/projects/{project_id}/automations/{automation_id}/edit"
CHANGED_MEANWHILE = (
    "This automation was changed after you opened this page. Compare your entries with its page, then save again."
)
MERGE_NEEDS_ADMIN = "Only an administrator can save an automation that pushes without a review."


@router.get(NEW_PATH)
async def new_automation_page(
    project_id: str, signed_in: EditorRequest, kind: Annotated[str, Query(max_length=40)] = ""
) -> Response:
    project = await signed_in.get_project(project_id)
    values = values_for_kind(Kind(kind) if kind in set(Kind) else Kind.CUSTOM)
    return await _render_form(signed_in, project, None, values)


@router.post(NEW_PATH)
async def create_automation(project_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    typed = values_from_form(post.form)
    try:
        _check_mode(post, typed)
        definition = {**typed.to_definition(), "enabled": "enabled" in typed.ticks}
        automation = await run_in_thread(
            post.desk.automations.create, project, definition, actor=post.person.email, nonce=post.form.get("nonce")
        )
    except RequestError as error:
        return await _render_form(post, project, None, typed, error, post.form.get("nonce"))
    return _redirect_to_page(post, automation, "Created.")


@router.get(EDIT_PATH)
async def edit_automation_page(project_id: str, automation_id: str, signed_in: EditorRequest) -> Response:
    project = await signed_in.get_project(project_id)
    automation, _ = await run_in_thread(signed_in.desk.automations.get, project.id, automation_id)
    refuse_file_automation(project, automation)
    return await _render_form(signed_in, project, automation, values_from_definition(automation.definition))


@router.post(EDIT_PATH)
async def change_automation(project_id: str, automation_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    automation, _ = await run_in_thread(post.desk.automations.get, project.id, automation_id)
    refuse_file_automation(project, automation)
    typed = values_from_form(post.form)
    changes = find_changes(automation.definition, typed)
    try:
        if post.form.get("updated_at") != str(automation.updated_at):
            raise InvalidRequest(CHANGED_MEANWHILE)
        _check_mode(post, typed)
        changed = (
            await run_in_thread(post.desk.automations.change, project, automation_id, changes, actor=post.person.email)
            if changes
            else automation
        )
    except RequestError as error:
        return await _render_form(post, project, automation, typed, error)
    return _redirect_to_page(post, changed, "Saved.")


def find_changes(definition: AutomationDefinition, typed: FormValues) -> Mapping[str, object]:
    """Returns the fields that differ from the definition, so that the audit log names only these."""
    current = definition.model_dump(mode="json", by_alias=True)
    return {name: value for name, value in typed.to_definition().items() if value != current[name]}


def _check_mode(post: EditorPost, typed: FormValues) -> None:
    """Raises InvalidRequest if an editor saves an automation that pushes to the branch, since editors cannot."""
    if typed.get("mode") == "merge" and not post.may("admin"):
        raise InvalidRequest(MERGE_NEEDS_ADMIN, details=[ErrorDetail("mode", MERGE_NEEDS_ADMIN)])


def _redirect_to_page(post: EditorPost, automation: Automation, verb: str) -> Response:
    trigger = automation.definition.trigger
    message = f"{verb} It runs: {describe_trigger(trigger)}."
    if isinstance(trigger, ScheduleTrigger) and automation.definition.enabled:
        slots = list_next_slots(trigger.cron, trigger.timezone, now(), 1)
        message += f" The next run is on {slots[0]} ({trigger.timezone})." if slots else ""
    path = f"/projects/{automation.project_id}/automations/{automation.id}"
    return redirect_with_message(post.desk.settings, path, message)


@cache
def _list_zones() -> list[str]:
    return sorted(available_timezones())


async def _render_form(
    signed_in: SignedInRequest,
    project: Project,
    automation: Automation | None,
    typed: FormValues,
    error: RequestError | None = None,
    nonce: str = "",
) -> Response:
    """Renders the form with the typed values, and with errors beside their inputs.

    The nonce of a new automation is an unused ID. A form that is sent twice creates one automation.
    """
    contexts = await run_in_thread(signed_in.desk.contexts.list, project.id)
    models = signed_in.desk.jobs.allowed_models(project)
    faults = faults_by_input(error.details, typed.get("trigger")) if error else {}
    heading = f"Edit {automation.definition.name}" if automation else "New automation"
    base = f"/projects/{project.id}/automations"
    return render_page(
        "automation-form.html",
        error.status if error else 200,
        error.headers if error else None,
        error="" if error is None else error.message if not faults else "Not saved. Correct the marked fields.",
        signed_in=signed_in,
        project=project,
        tab="automations",
        title=heading,
        automation=automation,
        typed=typed,
        faults=faults,
        repositories=typed.list_repositories([context.name for context in contexts]),
        context_names=[context.name for context in contexts],
        kinds=KIND_CHOICES,
        triggers=TRIGGER_LABELS,
        modes=MODE_LABELS,
        groupings=GROUPING_LABELS,
        context_scopes=CONTEXT_LABELS,
        nonce=nonce or new_id("auto"),
        models=models,
        other_model=typed.get("model") if typed.get("model") not in models else "",
        zones=_list_zones(),
        max_prompt_chars=MAX_OWN_PROMPT_CHARS,
        action=f"{base}/{automation.id}/edit" if automation else f"{base}/new",
        back=f"{base}/{automation.id}" if automation else base,
    )
