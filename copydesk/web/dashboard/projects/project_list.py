"""All projects at a glance, and making another."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Response

from copydesk.analytics.date_ranges import days
from copydesk.analytics.stores.base import Split
from copydesk.core import clock
from copydesk.core.errors import Refusal
from copydesk.core.projects.projects import FORGES, Project
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import configured
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.project_setup import Wanted, found_project
from copydesk.jobs.storage.project_stats import Standing, standings
from copydesk.web.dashboard.auth.session import Admin, AdminPost, Viewer, Visit, see
from copydesk.web.responses.html import page

router = APIRouter()
PATIENCE = 20.0
"""Seconds for which somebody waits before a page."""
FIELDS = ("name", "repository", "forge", "ref", "root", "model", "forbid_private")


@dataclass(frozen=True)
class Row:
    project: Project
    standing: Standing
    visitors: Split | None
    """None when the store cannot say now."""


@router.get("/projects")
async def projects(visit: Viewer) -> Response:
    desk = visit.desk
    every, standing = await asyncio.gather(call(desk.projects.all), call(standings, desk.database))
    visitors = await asyncio.gather(*(call(_visitors, desk, project) for project in every))
    rows = [
        Row(project, standing.get(project.id, Standing()), count)
        for project, count in zip(every, visitors, strict=True)
    ]
    return page("projects.html", visit=visit, tab="projects", title="Projects", rows=rows)


@router.get("/projects/new")
async def new_project_page(visit: Admin) -> Response:
    return _form(visit, {})


@router.post("/projects/new")
async def new_project(post: AdminPost) -> Response:
    desk, typed = post.desk, {name: post.form.get(name).strip() for name in FIELDS}
    wanted = Wanted(
        name=typed["name"],
        repository=typed["repository"],
        ref=typed["ref"] or None,
        root=typed["root"],
        forge=typed["forge"] or None,
        model=typed["model"] or None,
        token=post.form.get("secret").strip() or None,
        allow_private="forbid_private" not in post.form,
    )
    try:
        # A host may be slow to answer, so not in the few threads that other pages' calls share.
        made = await asyncio.to_thread(
            found_project, desk.projects, desk.secrets, wanted, seconds=PATIENCE, actor=post.person.email
        )
    except Refusal as refusal:
        faults = {detail.field: detail.message for detail in refusal.details}
        return _form(post, typed, refusal.status, faults, "" if faults else refusal.message)
    except JobFailed as failure:
        return _form(post, typed, 422, {"repository": str(failure)})
    return see(f"/projects/{made.id}/start")


def _form(
    visit: Visit, typed: Mapping[str, str], status: int = 200, faults: Mapping[str, str] | None = None, error: str = ""
) -> Response:
    return page(
        "project-new.html",
        status,
        visit=visit,
        tab="projects",
        title="New project",
        typed={**dict.fromkeys(FIELDS, ""), **typed},
        faults=faults or {},
        error=error or ("The project was not made; what is missing stands below." if faults else ""),
        forges=FORGES,
        models=ready_models(visit.desk),
        default_model=visit.desk.settings.model,
    )


def ready_models(desk: Desk) -> dict[str, str | None]:
    """The models that the service offers, each with what it lacks."""
    settings = desk.settings
    names = dict.fromkeys([settings.model, *settings.models, "mechanic"])
    return {name: configured(name, settings.model_url)[1] for name in names}


def _visitors(desk: Desk, project: Project) -> Split | None:
    """Of the last seven days, as far as they are counted: nobody waits here for the newest."""
    today = clock.today()
    try:
        desk.sites.settle(project, desk.store)
        return desk.store.visitors(project.id, days(today - 6, today + 1), limit=1).totals
    except Refusal:
        return None
