"""The list of projects, and the form that creates a project."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from copydesk.analytics.date_ranges import clamp_day_range
from copydesk.analytics.stores.base import Counts
from copydesk.core import clock
from copydesk.core.errors import RequestError
from copydesk.core.projects.privacy_choices import DEFAULT_PRIVACY, PRIVACY_CHANGE_NOTE, PRIVACY_INTRODUCTION
from copydesk.core.projects.projects import FORGES, Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import check_configuration
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.project_setup import NewProject, create_project
from copydesk.jobs.projects.repository_warnings import find_folder_warnings
from copydesk.jobs.storage.stats import ProjectJobCounts, count_jobs_by_project
from copydesk.web.dashboard.auth.access import AdminPost, AdminRequest, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()
REPOSITORY_TIMEOUT_SECONDS = 20.0
"""How long a page waits for the repository's host."""
FORM_FIELDS = ("name", "repository", "forge", "ref", "root", "model", "forbid_private", "privacy")


@dataclass(frozen=True)
class ProjectRow:
    project: Project
    standing: ProjectJobCounts
    visitors: Counts | None
    """The visitors of the last seven days; None if the analytics store is unavailable."""


@router.get("/projects")
async def projects_page(request: Request, signed_in: ViewerRequest) -> Response:
    desk = signed_in.desk
    notice = read_message(request, desk.settings)
    all_projects, job_counts = await asyncio.gather(
        run_in_thread(desk.projects.all), run_in_thread(count_jobs_by_project, desk.database)
    )
    visitors = await asyncio.gather(*(run_in_thread(_count_visitors, desk, project) for project in all_projects))
    rows = [
        ProjectRow(project, job_counts.get(project.id, ProjectJobCounts()), count)
        for project, count in zip(all_projects, visitors, strict=True)
    ]
    response = render_page(
        "projects.html", signed_in=signed_in, tab="projects", title="Projects", rows=rows, notice=notice
    )
    if notice:
        delete_message(response, desk.settings)
    return response


@router.get("/projects/new")
async def new_project_page(signed_in: AdminRequest) -> Response:
    return _render_form(signed_in, {})


@router.post("/projects/new")
async def submit_new_project(post: AdminPost) -> Response:
    desk = post.desk
    typed = {name: post.form.get(name).strip() for name in FORM_FIELDS}
    requested = NewProject(
        name=typed["name"],
        repository=typed["repository"],
        ref=typed["ref"] or None,
        root=typed["root"],
        forge=typed["forge"] or None,
        model=typed["model"] or None,
        token=post.form.get("secret").strip() or None,
        allow_private="forbid_private" not in post.form,
        options={"privacy": typed["privacy"] or DEFAULT_PRIVACY},
    )
    try:
        # The host may be slow, so this does not use the small thread pool that the other pages share.
        project = await asyncio.to_thread(
            create_project,
            desk.projects,
            desk.secrets,
            requested,
            seconds=REPOSITORY_TIMEOUT_SECONDS,
            actor=post.person.email,
        )
    except RequestError as error:
        faults = {detail.field: detail.message for detail in error.details}
        return _render_form(post, typed, error.status, faults, "" if faults else error.message)
    except JobFailed as failure:
        return _render_form(post, typed, 422, {"repository": str(failure)})
    # A missing folder does not prevent the project: a job can create the folder.
    project_secrets = {"forge_token": requested.token} if requested.token else {}
    warnings = await asyncio.to_thread(find_folder_warnings, project, project_secrets, REPOSITORY_TIMEOUT_SECONDS)
    return redirect_with_message(desk.settings, f"/projects/{project.id}/start", " ".join(warnings))


def _render_form(
    signed_in: SignedInRequest,
    typed: Mapping[str, str],
    status: int = 200,
    faults: Mapping[str, str] | None = None,
    error: str = "",
) -> Response:
    return render_page(
        "project-new.html",
        status,
        signed_in=signed_in,
        tab="projects",
        title="New project",
        typed={**dict.fromkeys(FORM_FIELDS, ""), "privacy": DEFAULT_PRIVACY, **typed},
        faults=faults or {},
        error=error or ("The project wasn’t created. Fix the problems below." if faults else ""),
        forges=FORGES,
        models=check_models(signed_in.desk),
        default_model=signed_in.desk.settings.model,
        privacy_help=f"{PRIVACY_INTRODUCTION} {PRIVACY_CHANGE_NOTE}",
    )


def check_models(desk: Desk) -> dict[str, str | None]:
    """Returns the offered models, each with the problem of its configuration, or None if it is ready."""
    settings = desk.settings
    names = dict.fromkeys([settings.model, *settings.models, "mechanic"])
    return {name: check_configuration(name, settings.model_url)[1] for name in names}


def _count_visitors(desk: Desk, project: Project) -> Counts | None:
    """Counts the visitors of the last seven days. Does not wait until the newest views are folded."""
    today = clock.today()
    try:
        desk.sites.apply_ai_classes(project, desk.store)
        return desk.store.count_visitors_by_page(project.id, clamp_day_range(today - 6, today + 1), limit=1).totals
    except RequestError:
        return None
