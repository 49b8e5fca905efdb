"""The review queue: the jobs of all projects that the signed-in person may see, open pull requests first."""

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.jobs.job import ReviewState
from copydesk.web.dashboard.auth.access import AccountRequest, SignedInRequest
from copydesk.web.dashboard.auth.visible_projects import list_visible_projects
from copydesk.web.dashboard.jobs.job_filters import CurrentJobQuery, JobListQuery
from copydesk.web.dashboard.jobs.job_list import load_job_list, load_list_version
from copydesk.web.responses.html import render_page

router = APIRouter()
QUEUE_PATH = "/queue"


@router.get(QUEUE_PATH)
async def review_queue_page(signed_in: AccountRequest, query: CurrentJobQuery) -> Response:
    page_data = await run_in_thread(_load_page_data, signed_in, query)
    return render_page("queue.html", signed_in=signed_in, tab="queue", title="Review queue", **page_data)


@router.get(f"{QUEUE_PATH}/live")
async def review_queue_version(signed_in: AccountRequest, query: CurrentJobQuery) -> Response:
    """Returns the version of the list. The page polls it and reloads the list only when it changes."""
    version = await run_in_thread(_load_version, signed_in, query)
    return JSONResponse({"version": version}, headers={"Cache-Control": "no-store"})


def _load_page_data(signed_in: SignedInRequest, query: JobListQuery) -> dict[str, Any]:
    projects = {project.id: project for project in list_visible_projects(signed_in)}
    offered = sorted(projects.values(), key=lambda project: (project.name.casefold(), project.id))
    return {
        "projects": offered,
        **load_job_list(signed_in.desk, projects, query, QUEUE_PATH, ReviewState.OPEN),
    }


def _load_version(signed_in: SignedInRequest, query: JobListQuery) -> str:
    project_ids = [project.id for project in list_visible_projects(signed_in)]
    return load_list_version(signed_in.desk, project_ids, query, ReviewState.OPEN)
