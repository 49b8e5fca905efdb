"""The settings page of a project: its settings in groups, its secrets, its webhook and a check of the repository."""

import asyncio
import secrets
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from copydesk.core.errors import ErrorDetail, InvalidRequest, NotFound, RequestError
from copydesk.core.projects.projects import FIELDS_IN_REPOSITORY, Project
from copydesk.core.projects.sealed_secrets import select_model_keys
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import check_configuration
from copydesk.jobs.projects.option_checks import validate_options
from copydesk.jobs.projects.repository_warnings import describe_checked_out_branch, find_repository_warnings
from copydesk.web.dashboard.auth.access import AdminPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.dashboard.projects.project_list import REPOSITORY_TIMEOUT_SECONDS
from copydesk.web.dashboard.projects.secret_fields import list_secret_fields
from copydesk.web.dashboard.projects.setting_fields import SETTING_GROUPS, SettingGroup, format_values
from copydesk.web.dashboard.projects.webhook_setup import build_webhook_instructions
from copydesk.web.responses.html import render_page

router = APIRouter()
SERVER_FIELDS = ("api_url", "check_command")
"""Fields that let the server call a host or run a command. Administrators of all projects may change them."""
SERVER_FIELD_MESSAGE = "Only an administrator of all projects can change this."


@router.get("/projects/{project_id}/settings")
async def settings_page(request: Request, project_id: str, signed_in: ViewerRequest, saved: str = "") -> Response:
    settings = signed_in.desk.settings
    warning = read_message(request, settings)
    project = await signed_in.get_project(project_id)
    response = await _render_settings_page(signed_in, project, saved=saved, warning=warning)
    if warning:
        delete_message(response, settings)
    return response


@router.post("/projects/{project_id}/settings")
async def change_settings(project_id: str, post: AdminPost) -> Response:
    """Changes the fields that differ from the values on the page. Another person may have changed the others since."""
    project = await post.get_project(project_id)
    group = _get_group(post.form.get("group"))
    typed = group.read_form_values(project, post.form)
    previous = format_values(project)
    previous |= {name: post.form.get(f"was-{name}") for name in typed if f"was-{name}" in post.form}
    changes = {name: text for name, text in typed.items() if text != previous[name]}
    try:
        _reject_token_variable(changes)
        _reject_server_fields(post, changes)
        validate_options(changes)
        if changes:
            project = await run_in_thread(post.desk.projects.change, project.id, changes, actor=post.person.email)
    except RequestError as request_error:
        faults = {detail.field: detail.message for detail in request_error.details}
        error = "Not saved. Fix the errors below." if faults else request_error
        return await _render_settings_page(post, project, request_error.status, typed=typed, faults=faults, error=error)
    warning = await _find_warning(post.desk, project) if changes.keys() & FIELDS_IN_REPOSITORY else ""
    return _redirect_to_section(post.desk, project, group.id, warning)


@router.post("/projects/{project_id}/check")
async def check_access(project_id: str, post: AdminPost) -> Response:
    """Checks the repository in the same way as the start of a job does."""
    project = await post.get_project(project_id)
    warning = await _find_warning(post.desk, project)
    notice = "" if warning else f"Access works. Jobs start from {project.ref}."
    return await _render_settings_page(post, project, error=warning, notice=notice)


@router.post("/projects/{project_id}/secrets")
async def set_secret(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    name = post.form.get("name")
    value = post.form.get("value")
    try:
        await run_in_thread(post.desk.secrets.set, project.id, name, value, actor=post.person.email)
    except RequestError as error:
        return await _render_settings_page(post, project, error=error)
    return _redirect_to_section(post.desk, project, "secrets")


@router.post("/projects/{project_id}/secrets/remove")
async def remove_secret(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    try:
        await run_in_thread(post.desk.secrets.remove, project.id, post.form.get("name"), actor=post.person.email)
    except RequestError as error:
        return await _render_settings_page(post, project, error=error)
    return _redirect_to_section(post.desk, project, "secrets")


@router.post("/projects/{project_id}/webhook-secret")
async def create_webhook_secret(project_id: str, post: AdminPost) -> Response:
    """Creates and stores a webhook secret and shows it once. A reload creates another one."""
    project = await post.get_project(project_id)
    hook = build_webhook_instructions(project, post.desk.settings.base_url)
    if hook is None:
        raise NotFound("This project's forge does not send webhooks.")
    secret = secrets.token_hex(32)
    await run_in_thread(post.desk.secrets.set, project.id, "webhook_secret", secret, actor=post.person.email)
    return render_page(
        "webhook.html", signed_in=post, project=project, tab="settings", title="Webhook", hook=hook, secret=secret
    )


async def _render_settings_page(
    signed_in: SignedInRequest,
    project: Project,
    status: int = 200,
    *,
    typed: Mapping[str, str] | None = None,
    faults: Mapping[str, str] | None = None,
    saved: str = "",
    error: RequestError | str = "",
    notice: str = "",
    warning: str = "",
) -> Response:
    desk, sealed_at = signed_in.desk, await run_in_thread(signed_in.desk.secrets.read_update_times, project.id)
    return render_page(
        "settings.html",
        status,
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Settings",
        groups=[(group, group.build_fields(project, typed or {}, faults or {})) for group in SETTING_GROUPS],
        saved=saved,
        error=error,
        notice=notice,
        warning=warning,
        secrets=list_secret_fields(project, sealed_at),
        hook=build_webhook_instructions(project, desk.settings.base_url),
        models=desk.jobs.allowed_models(project),
        default_model=desk.settings.model,
        lacking=_find_model_problem(desk, project, sealed_at),
        checked_out=await run_in_thread(describe_checked_out_branch, project),
    )


def _redirect_to_section(desk: Desk, project: Project, section: str, warning: str = "") -> Response:
    location = f"/projects/{project.id}/settings?saved={section}#{section}"
    return redirect_with_message(desk.settings, location, warning)


async def _find_warning(desk: Desk, project: Project) -> str:
    """Returns what is wrong with the project's repository, branch or documentation folder, or ""."""
    try:
        project_secrets = await run_in_thread(desk.secrets.all, project.id)
    except RequestError as error:
        return error.message
    # The host may be slow, so this does not use the small thread pool that the other pages share.
    return " ".join(
        await asyncio.to_thread(find_repository_warnings, project, project_secrets, REPOSITORY_TIMEOUT_SECONDS)
    )


def _find_model_problem(desk: Desk, project: Project, sealed_at: Mapping[str, int]) -> str | None:
    """Returns the problem of the model's configuration, or None. Does not decrypt keys: it suffices that one is set."""
    keys = select_model_keys(dict.fromkeys(sealed_at, "sealed"))
    return check_configuration(project.model or desk.settings.model, desk.settings.model_url, keys)[1]


def _get_group(name: str) -> SettingGroup:
    setting_group = next((group for group in SETTING_GROUPS if group.id == name), None)
    if setting_group is None:
        raise InvalidRequest("Unknown group of settings.")
    return setting_group


def _reject_server_fields(post: SignedInRequest, changes: Mapping[str, str]) -> None:
    """Raises InvalidRequest if a person who is an administrator only of this project changes a field that reaches
    beyond it."""
    faults = [ErrorDetail(name, SERVER_FIELD_MESSAGE) for name in changes if name in SERVER_FIELDS]
    if faults and not post.person.may("admin"):
        raise InvalidRequest(SERVER_FIELD_MESSAGE, details=faults)


def _reject_token_variable(changes: Mapping[str, str]) -> None:
    """Raises InvalidRequest if the form sets a token variable.

    Otherwise an administrator could send any secret in the server's environment to a host of their choice."""
    if changes.get("token_env"):
        message = "Set the variable on the server with copydesk project set. Here you can only remove it."
        raise InvalidRequest(message, details=[ErrorDetail("token_env", message)])
