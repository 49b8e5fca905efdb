"""The analytics page of popular pages whose sources changed, each with a button that starts a job to improve it."""

from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from copydesk.automations.triggers.stale_pages.reports import StalePageEntry
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.reports.page_problems.stale import StalePageResponse, load_stale_pages
from copydesk.web.dashboard.auth.access import EditorPost, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership
from copydesk.web.responses.csv_reports import render_list_csv

TEMPLATE = "readership-stale.html"
TOO_EARLY = "The pages were compared less than a minute ago. Try again in a minute."

router = APIRouter(prefix="/projects/{project_id}/readership")


class StaleTableRow(NamedTuple):
    page: StalePageEntry
    nonce: str
    """Makes the form create one job, however often it is submitted."""


@router.get("/stale")
async def stale_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    selection = parse_selection(project, {})
    state = await run_in_thread(load_stale_pages, signed_in.desk, project)
    pages = state.report.pages if state.report else ()
    response = render_readership(
        TEMPLATE,
        200,
        signed_in,
        selection,
        state=state,
        rows=[StaleTableRow(page, random_text(22)) for page in pages],
        has_range=False,  # the report is about the last 30 days
        message=read_message(request, signed_in.desk.settings),
    )
    delete_message(response, signed_in.desk.settings)
    return response


@router.post("/stale/refresh")
async def refresh_stale_pages(project_id: str, post: EditorPost) -> Response:
    """Requests a new comparison."""
    project = await post.get_project(project_id)
    is_requested = await run_in_thread(post.desk.stale_pages.reports.request, project.id)
    location = f"/projects/{project.id}/readership/stale"
    return redirect_with_message(post.desk.settings, location, "" if is_requested else TOO_EARLY)


def render_stale_csv(desk: Desk, project: Project) -> str:
    """Returns the same CSV as the API."""
    report = desk.stale_pages.reports.load(project.id).report
    return render_list_csv("stale", [StalePageResponse.from_entry(page) for page in (report.pages if report else ())])
