"""The list of a project's automations, and the page of one with its runs."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from copydesk.automations.definition import ScheduleTrigger
from copydesk.automations.service import refuse_file_automation
from copydesk.core import clock
from copydesk.core.errors import RequestError
from copydesk.core.ids import is_id
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.auth.access import EditorPost, EditorRequest, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.automations.descriptions import KIND_CHOICES, RunRow, build_automation_row
from copydesk.web.dashboard.automations.form_values import GROUPING_LABELS, MODE_LABELS
from copydesk.web.dashboard.automations.schedule_words import list_next_slots
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.dashboard.jobs.job_rows import list_waiting_days
from copydesk.web.responses.html import render_page

router = APIRouter()
LIST_PATH = "/projects/{project_id}/automations"
AUTOMATION_PATH = f"{LIST_PATH}/{{automation_id}}"
RUNS_PER_PAGE = 20
PREVIEWED_SLOTS = 3


@router.get(LIST_PATH)
async def automation_list_page(request: Request, project_id: str, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    message = read_message(request, signed_in.desk.settings)
    listed = await run_in_thread(signed_in.desk.automations.list_for_project, project.id)
    files = await run_in_thread(signed_in.desk.automation_files.get_state, project.id)
    job_ids = [each.last_run.job_id for each in listed if each.last_run is not None]
    response = render_page(
        "automations.html",
        signed_in=signed_in,
        project=project,
        tab="automations",
        title="Automations",
        rows=[build_automation_row(project, *each) for each in listed],
        waits=await run_in_thread(list_waiting_days, signed_in.desk, job_ids),
        kinds=KIND_CHOICES,
        files=files if project.policy.automation_files else None,
        message=message,
    )
    if message:
        delete_message(response, signed_in.desk.settings)
    return response


@router.get(AUTOMATION_PATH)
async def automation_page(
    request: Request,
    project_id: str,
    automation_id: str,
    signed_in: ViewerRequest,
    cursor: Annotated[str, Query(max_length=60)] = "",
) -> Response:
    project = await signed_in.get_project(project_id)
    message = read_message(request, signed_in.desk.settings)
    response = await _render_automation(signed_in, project, automation_id, cursor, message=message)
    if message:
        delete_message(response, signed_in.desk.settings)
    return response


@router.post(f"{AUTOMATION_PATH}/switch")
async def switch_automation(project_id: str, automation_id: str, post: EditorPost) -> Response:
    """Switches an automation on or off, and returns to the page of the form."""
    project = await post.get_project(project_id)
    values = {"enabled": post.form.get("enabled") == "true"}
    try:
        changed = await run_in_thread(
            post.desk.automations.change, project, automation_id, values, actor=post.person.email
        )
    except RequestError as error:
        return await _render_automation(post, project, automation_id, error=error)
    base = f"/projects/{project.id}/automations"
    state = "on" if changed.definition.enabled else "off"
    path = f"{base}/{automation_id}" if post.form.get("from") == "page" else base
    return redirect_with_message(post.desk.settings, path, f"{changed.definition.name} is {state}.")


@router.post(f"{AUTOMATION_PATH}/run")
async def run_automation(project_id: str, automation_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    try:
        await run_in_thread(
            post.desk.automations.run_now,
            project,
            automation_id,
            actor=post.person.email,
            requester=post.person.name,
        )
    except RequestError as error:
        return await _render_automation(post, project, automation_id, error=error)
    path = f"/projects/{project.id}/automations/{automation_id}"
    return redirect_with_message(post.desk.settings, path, "Started a run.")


@router.get(f"{AUTOMATION_PATH}/delete")
async def delete_automation_page(project_id: str, automation_id: str, signed_in: EditorRequest) -> Response:
    project = await signed_in.get_project(project_id)
    found = await run_in_thread(signed_in.desk.automations.get, project.id, automation_id)
    if project.policy.automation_files:
        refuse_file_automation(project, found.automation)
    return render_page(
        "automation-delete.html",
        signed_in=signed_in,
        project=project,
        tab="automations",
        title="Delete automation",
        row=build_automation_row(project, *found),
    )


@router.post(f"{AUTOMATION_PATH}/delete")
async def delete_automation(project_id: str, automation_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    automation, _ = await run_in_thread(post.desk.automations.get, project.id, automation_id)
    await run_in_thread(post.desk.automations.delete, project.id, automation_id, actor=post.person.email)
    message = f"Deleted {automation.definition.name}. Its jobs and pull requests remain."
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/automations", message)


async def _render_automation(
    signed_in: SignedInRequest,
    project: Project,
    automation_id: str,
    cursor: str = "",
    *,
    error: RequestError | None = None,
    message: str = "",
) -> Response:
    """Renders the page of an automation. Raises AutomationNotFound for an unknown one, also after a form."""
    automations = signed_in.desk.automations
    automation, last_run = await run_in_thread(automations.get, project.id, automation_id)
    after = cursor if is_id(cursor, "arun") else None
    runs, next_cursor = await run_in_thread(automations.list_runs, project.id, automation_id, RUNS_PER_PAGE, after)
    trigger, slots = automation.definition.trigger, list[str]()
    if isinstance(trigger, ScheduleTrigger) and automation.definition.enabled:
        slots = list_next_slots(trigger.cron, trigger.timezone, clock.now(), PREVIEWED_SLOTS)
    return render_page(
        "automation.html",
        error=error,
        signed_in=signed_in,
        project=project,
        tab="automations",
        title=automation.definition.name,
        row=build_automation_row(project, automation, last_run),
        definition=automation.definition,
        runs=[RunRow(run, project) for run in runs],
        waits=await run_in_thread(list_waiting_days, signed_in.desk, {run.job_id for run in runs}),
        older=f"?cursor={next_cursor}" if next_cursor else "",
        is_first=after is None,
        slots=slots,
        mode=MODE_LABELS[automation.definition.mode],
        grouping=GROUPING_LABELS[automation.definition.grouping],
        message=message,
    )
