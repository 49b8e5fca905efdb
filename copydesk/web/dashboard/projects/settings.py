"""A project's settings: its fields group by group, its sealed secrets, and whether its repository can be used."""

import asyncio
import secrets
from collections.abc import Mapping

from fastapi import APIRouter, Response

from copydesk.core.errors import ErrorDetail, InvalidRequest, NotFound, RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import select_model_keys
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import check_configuration
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.option_checks import validate_options
from copydesk.jobs.publish.repository_access import find_usable_branch
from copydesk.web.dashboard.auth.session import AdminPost, SignedInRequest, Viewer, redirect
from copydesk.web.dashboard.projects.project_list import REPOSITORY_TIMEOUT_SECONDS
from copydesk.web.dashboard.projects.secret_fields import list_secret_fields
from copydesk.web.dashboard.projects.setting_fields import SETTING_GROUPS, SettingGroup, format_values
from copydesk.web.dashboard.projects.webhook_setup import build_webhook_instructions
from copydesk.web.responses.html import render_page

router = APIRouter()


@router.get("/projects/{project_id}/settings")
async def settings_page(project_id: str, visit: Viewer, saved: str = "") -> Response:
    return await _render_settings_page(visit, await visit.get_project(project_id), saved=saved)


@router.post("/projects/{project_id}/settings")
async def change_settings(project_id: str, post: AdminPost) -> Response:
    """Only what differs from what the page showed is changed: somebody else may have changed the rest meanwhile."""
    project = await post.get_project(project_id)
    group = _get_group(post.form.get("group"))
    typed, previous = group.read_form_values(project, post.form), format_values(project)
    previous |= {name: post.form.get(f"was-{name}") for name in typed if f"was-{name}" in post.form}
    changes = {name: text for name, text in typed.items() if text != previous[name]}
    try:
        _reject_token_variable(changes)
        validate_options(changes)
        if changes:
            await run_in_thread(post.desk.projects.change, project.id, changes, actor=post.person.email)
    except RequestError as request_error:
        faults = {detail.field: detail.message for detail in request_error.details}
        error = "Nothing was changed; what is wrong stands below." if faults else request_error.message
        return await _render_settings_page(post, project, request_error.status, typed=typed, faults=faults, error=error)
    return _redirect_to_section(project, group.id)


@router.post("/projects/{project_id}/check")
async def check_access(project_id: str, post: AdminPost) -> Response:
    """The same look that every job begins with."""
    project, desk = await post.get_project(project_id), post.desk
    try:
        project_secrets = await run_in_thread(desk.secrets.all, project.id)
        branch = await asyncio.to_thread(
            find_usable_branch, project, project_secrets, project.ref, REPOSITORY_TIMEOUT_SECONDS
        )
    except (JobFailed, RequestError) as failure:
        return await _render_settings_page(post, project, error=str(failure))
    return await _render_settings_page(post, project, notice=f"The repository can be used: jobs start from {branch}.")


@router.post("/projects/{project_id}/secrets")
async def set_secret(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    name, value = post.form.get("name"), post.form.get("value")
    try:
        await run_in_thread(post.desk.secrets.set, project.id, name, value, actor=post.person.email)
    except RequestError as error:
        return await _render_settings_page(post, project, error.status, error=error.message)
    return _redirect_to_section(project, "secrets")


@router.post("/projects/{project_id}/secrets/remove")
async def remove_secret(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    try:
        await run_in_thread(post.desk.secrets.remove, project.id, post.form.get("name"), actor=post.person.email)
    except RequestError as error:
        return await _render_settings_page(post, project, error.status, error=error.message)
    return _redirect_to_section(project, "secrets")


@router.post("/projects/{project_id}/webhook-secret")
async def create_webhook_secret(project_id: str, post: AdminPost) -> Response:
    """Made and sealed here, and shown in this one answer for the forge to know; a reload makes another."""
    project = await post.get_project(project_id)
    hook = build_webhook_instructions(project, post.desk.settings.base_url)
    if hook is None:
        raise NotFound("This project is on no forge that sends webhooks.")
    secret = secrets.token_hex(32)
    await run_in_thread(post.desk.secrets.set, project.id, "webhook_secret", secret, actor=post.person.email)
    return render_page(
        "webhook.html", visit=post, project=project, tab="settings", title="Webhook", hook=hook, secret=secret
    )


async def _render_settings_page(
    visit: SignedInRequest,
    project: Project,
    status: int = 200,
    *,
    typed: Mapping[str, str] | None = None,
    faults: Mapping[str, str] | None = None,
    saved: str = "",
    error: str = "",
    notice: str = "",
) -> Response:
    desk, sealed_at = visit.desk, await run_in_thread(visit.desk.secrets.read_update_times, project.id)
    return render_page(
        "settings.html",
        status,
        visit=visit,
        project=project,
        tab="settings",
        title="Settings",
        groups=[(group, group.build_fields(project, typed or {}, faults or {})) for group in SETTING_GROUPS],
        saved=saved,
        error=error,
        notice=notice,
        secrets=list_secret_fields(project, sealed_at),
        hook=build_webhook_instructions(project, desk.settings.base_url),
        models=desk.jobs.allowed_models(project),
        default_model=desk.settings.model,
        lacking=_find_model_problem(desk, project, sealed_at),
    )


def _redirect_to_section(project: Project, section: str) -> Response:
    return redirect(f"/projects/{project.id}/settings?saved={section}#{section}")


def _find_model_problem(desk: Desk, project: Project, sealed_at: Mapping[str, int]) -> str | None:
    """What the project's model needs and has not. That a key is sealed is enough to know: it is not opened."""
    keys = select_model_keys(dict.fromkeys(sealed_at, "sealed"))
    return check_configuration(project.model or desk.settings.model, desk.settings.model_url, keys)[1]


def _get_group(name: str) -> SettingGroup:
    setting_group = next((group for group in SETTING_GROUPS if group.id == name), None)
    if setting_group is None:
        raise InvalidRequest("There is no such group of settings.")
    return setting_group


def _reject_token_variable(changes: Mapping[str, str]) -> None:
    """Whoever could name one could have any secret of the server's environment sent to a host of their choice."""
    if changes.get("token_env"):
        message = "A variable is named by who runs the server, with copydesk project set; here it can be taken away."
        raise InvalidRequest(message, details=[ErrorDetail("token_env", message)])
