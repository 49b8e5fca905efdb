"""A project's settings: its fields group by group, its sealed secrets, and whether its repository can be used."""

import asyncio
import secrets
from collections.abc import Mapping

from fastapi import APIRouter, Response

from copydesk.core.errors import Detail, InvalidRequest, NotFound, Refusal
from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import model_keys
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import configured
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.option_checks import check_choices
from copydesk.jobs.publish.repository_access import usable_branch
from copydesk.web.dashboard.auth.session import AdminPost, Viewer, Visit, see
from copydesk.web.dashboard.projects.project_list import PATIENCE
from copydesk.web.dashboard.projects.secret_fields import shown_secrets
from copydesk.web.dashboard.projects.setting_fields import GROUPS, Group, values_of
from copydesk.web.dashboard.projects.webhook_setup import hook_of
from copydesk.web.responses.html import page

router = APIRouter()


@router.get("/projects/{project_id}/settings")
async def settings(project_id: str, visit: Viewer, saved: str = "") -> Response:
    return await _page(visit, await visit.project(project_id), saved=saved)


@router.post("/projects/{project_id}/settings")
async def change(project_id: str, post: AdminPost) -> Response:
    """Only what differs from what the page showed is changed: somebody else may have changed the rest meanwhile."""
    project = await post.project(project_id)
    group = _group(post.form.get("group"))
    typed, was = group.typed(project, post.form), values_of(project)
    was |= {name: post.form.get(f"was-{name}") for name in typed if f"was-{name}" in post.form}
    wanted = {name: text for name, text in typed.items() if text != was[name]}
    try:
        _leave_variables_alone(wanted)
        check_choices(wanted)
        if wanted:
            await call(post.desk.projects.change, project.id, wanted, actor=post.person.email)
    except Refusal as refusal:
        faults = {detail.field: detail.message for detail in refusal.details}
        error = "Nothing was changed; what is wrong stands below." if faults else refusal.message
        return await _page(post, project, refusal.status, typed=typed, faults=faults, error=error)
    return _seen(project, group.id)


@router.post("/projects/{project_id}/check")
async def check_access(project_id: str, post: AdminPost) -> Response:
    """The same look that every job begins with."""
    project, desk = await post.project(project_id), post.desk
    try:
        known = await call(desk.secrets.all, project.id)
        branch = await asyncio.to_thread(usable_branch, project, known, project.ref, PATIENCE)
    except (JobFailed, Refusal) as failure:
        return await _page(post, project, error=str(failure))
    return await _page(post, project, notice=f"The repository can be used: jobs start from {branch}.")


@router.post("/projects/{project_id}/secrets")
async def seal(project_id: str, post: AdminPost) -> Response:
    project = await post.project(project_id)
    name, value = post.form.get("name"), post.form.get("value")
    try:
        await call(post.desk.secrets.set, project.id, name, value, actor=post.person.email)
    except Refusal as refusal:
        return await _page(post, project, refusal.status, error=refusal.message)
    return _seen(project, "secrets")


@router.post("/projects/{project_id}/secrets/remove")
async def remove(project_id: str, post: AdminPost) -> Response:
    project = await post.project(project_id)
    try:
        await call(post.desk.secrets.remove, project.id, post.form.get("name"), actor=post.person.email)
    except Refusal as refusal:
        return await _page(post, project, refusal.status, error=refusal.message)
    return _seen(project, "secrets")


@router.post("/projects/{project_id}/webhook-secret")
async def make_webhook_secret(project_id: str, post: AdminPost) -> Response:
    """Made and sealed here, and shown in this one answer for the forge to know; a reload makes another."""
    project = await post.project(project_id)
    hook = hook_of(project, post.desk.settings.base_url)
    if hook is None:
        raise NotFound("This project is on no forge that sends webhooks.")
    secret = secrets.token_hex(32)
    await call(post.desk.secrets.set, project.id, "webhook_secret", secret, actor=post.person.email)
    return page("webhook.html", visit=post, project=project, tab="settings", title="Webhook", hook=hook, secret=secret)


async def _page(
    visit: Visit,
    project: Project,
    status: int = 200,
    *,
    typed: Mapping[str, str] | None = None,
    faults: Mapping[str, str] | None = None,
    saved: str = "",
    error: str = "",
    notice: str = "",
) -> Response:
    desk, sealed = visit.desk, await call(visit.desk.secrets.names, project.id)
    return page(
        "settings.html",
        status,
        visit=visit,
        project=project,
        tab="settings",
        title="Settings",
        groups=[(group, group.fields(project, typed or {}, faults or {})) for group in GROUPS],
        saved=saved,
        error=error,
        notice=notice,
        secrets=shown_secrets(project, sealed),
        hook=hook_of(project, desk.settings.base_url),
        models=desk.jobs.models(project),
        default_model=desk.settings.model,
        lacking=_lacking(desk, project, sealed),
    )


def _seen(project: Project, part: str) -> Response:
    return see(f"/projects/{project.id}/settings?saved={part}#{part}")


def _lacking(desk: Desk, project: Project, sealed: Mapping[str, int]) -> str | None:
    """What the project's model needs and has not. That a key is sealed is enough to know: it is not opened."""
    keys = model_keys(dict.fromkeys(sealed, "sealed"))
    return configured(project.model or desk.settings.model, desk.settings.model_url, keys)[1]


def _group(name: str) -> Group:
    found = next((group for group in GROUPS if group.id == name), None)
    if found is None:
        raise InvalidRequest("There is no such group of settings.")
    return found


def _leave_variables_alone(wanted: Mapping[str, str]) -> None:
    """Whoever could name one could have any secret of the server's environment sent to a host of their choice."""
    if wanted.get("token_env"):
        message = "A variable is named by who runs the server, with copydesk project set; here it can be taken away."
        raise InvalidRequest(message, details=[Detail("token_env", message)])
