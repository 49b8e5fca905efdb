"""The list of projects, and the form that creates a project."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from copydesk.analytics.date_ranges import clamp_day_range
from copydesk.analytics.stores.base import CLASS_BITS
from copydesk.analytics.stores.report_rows import Counts, SiteTotals
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.projects.privacy_choices import DEFAULT_PRIVACY, PRIVACY_CHANGE_NOTE, PRIVACY_INTRODUCTION
from copydesk.core.projects.projects import FORGES, Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import check_configuration
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.project_setup import NewProject, ProjectNameTaken, create_project
from copydesk.jobs.projects.repository_warnings import find_folder_warnings
from copydesk.jobs.storage.stats import ProjectJobCounts, count_jobs_by_project
from copydesk.web.dashboard.auth.access import AccountRequest, AdminPost, AdminRequest, SignedInRequest
from copydesk.web.dashboard.auth.visible_projects import list_visible_projects
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.dashboard.readership.figures import MAX_SEARCH_CHARS, parse_page_number
from copydesk.web.responses.html import render_page

router = APIRouter()
REPOSITORY_TIMEOUT_SECONDS = 20.0
"""How long a page waits for the repository's host."""
PROJECTS_PER_PAGE = 60
FORM_FIELDS = ("name", "repository", "forge", "ref", "root", "model", "forbid_private", "privacy", "allow_same_name")


@dataclass(frozen=True)
class ProjectRow:
    project: Project
    standing: ProjectJobCounts
    visitors: Counts | None
    """The visitors of the last seven days; None if the analytics store is unavailable."""


@router.get("/projects")
async def projects_page(request: Request, signed_in: AccountRequest) -> Response:
    desk = signed_in.desk
    notice = read_message(request, desk.settings)
    search = request.query_params.get("search", "").strip()[:MAX_SEARCH_CHARS]
    error = ""
    try:
        number = parse_page_number(request.query_params)
    except InvalidRequest as invalid:
        number, error = 1, invalid.message
    visible, job_counts = await asyncio.gather(
        run_in_thread(list_visible_projects, signed_in), run_in_thread(count_jobs_by_project, desk.database)
    )
    matching = [project for project in visible if _matches(project, search)]
    offset = (number - 1) * PROJECTS_PER_PAGE
    shown = matching[offset : offset + PROJECTS_PER_PAGE]
    visitors = await run_in_thread(_count_visitors, desk, shown)
    rows = [
        ProjectRow(
            project,
            job_counts.get(project.id, ProjectJobCounts()),
            None if visitors is None else visitors.get(project.id, Counts()),
        )
        for project in shown
    ]
    response = render_page(
        "projects.html",
        400 if error else 200,
        signed_in=signed_in,
        tab="projects",
        title="Projects",
        rows=rows,
        notice=notice,
        error=error,
        search=search,
        all_count=len(visible),
        matching_count=len(matching),
        number=number,
        offset=offset,
        has_more=len(matching) > offset + PROJECTS_PER_PAGE,
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
        allow_same_name="allow_same_name" in post.form,
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
    except ProjectNameTaken as error:
        return _render_form(post, typed, error.status, {"name": error.message}, is_name_taken=True)
    except RequestError as error:
        faults = {detail.field: detail.message for detail in error.details}
        return _render_form(post, typed, error.status, faults, "" if faults else error)
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
    error: RequestError | str = "",
    *,
    is_name_taken: bool = False,
) -> Response:
    return render_page(
        "project-new.html",
        status,
        signed_in=signed_in,
        tab="projects",
        title="New project",
        typed={**dict.fromkeys(FORM_FIELDS, ""), "privacy": DEFAULT_PRIVACY, **typed},
        faults=faults or {},
        offers_same_name=is_name_taken or bool(typed.get("allow_same_name")),
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


def _matches(project: Project, search: str) -> bool:
    """Returns whether the name or the repository contains the words of the search, in any order and case."""
    text = f"{project.name} {project.repository}".casefold()
    return all(word in text for word in search.casefold().split())


def _count_visitors(desk: Desk, projects: Sequence[Project]) -> Mapping[str, Counts] | None:
    """Counts the visitors of the last seven days with one query. Does not wait until the newest views are folded.

    Returns None if the analytics store is unavailable. A project whose AI classes were changed since its last report is
    counted again, because the store does not know them yet.
    """
    today = clock.today()
    days = clamp_day_range(today - 6, today + 1)
    projects_by_id = {project.id: project for project in projects}
    try:
        totals = desk.store.count_site_totals(list(projects_by_id), days)
        outdated = [each.project_id for each in totals if _has_other_classes(each, projects_by_id[each.project_id])]
        for project_id in outdated:
            desk.sites.apply_ai_classes(projects_by_id[project_id], desk.store)
        if outdated:
            totals = [*totals, *desk.store.count_site_totals(outdated, days)]
    except RequestError:
        return None
    return {each.project_id: each.visitors for each in totals}


def _has_other_classes(totals: SiteTotals, project: Project) -> bool:
    return totals.ai_mask != sum(CLASS_BITS[kind] for kind in set(project.collecting.ai_classes))
