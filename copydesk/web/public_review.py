"""The public page of a pull request of the forge `local`. Everyone who has its link can open it."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.publish.forges.local import LocalPull
from copydesk.jobs.publish.git.local_repository import find_work_tree
from copydesk.jobs.publish.pull_body import remove_risks
from copydesk.web.api.dependencies import OpenDesk
from copydesk.web.dashboard.auth.access import sees_project
from copydesk.web.dashboard.jobs.change_view import DiffLayout, load_change_view, raw_diff_response
from copydesk.web.responses.html import render_page

router = APIRouter(include_in_schema=False)
ReviewToken = Annotated[str, Path(pattern="^[0-9A-Za-z]{22}$")]


@router.get("/review/{token}/pulls/{number}")
async def pull_page(
    request: Request,
    token: ReviewToken,
    number: Annotated[int, Path(ge=1, le=2**31 - 1)],
    desk: OpenDesk,
    view: DiffLayout = "unified",
) -> Response:
    pull = await run_in_thread(desk.pulls.get_pull_by_token, token, number)
    if view == "raw":
        return raw_diff_response(await run_in_thread(desk.jobs.diff, pull.project_id, pull.job_id))
    job = await run_in_thread(desk.jobs.get, pull.project_id, pull.job_id)
    dashboard_url = f"/projects/{pull.project_id}/pulls/{pull.number}"
    return await run_in_thread(
        render_page,
        "pull.html",
        title=f"{pull.title} · pull request {pull.number}",
        pull=pull,
        merge_command=await run_in_thread(_find_merge_command, desk, pull),
        job=job,
        description=remove_risks(pull.body, job.risk),
        change=await run_in_thread(load_change_view, desk, pull.project_id, pull.job_id, view),
        layout=view,
        page_url=f"/review/{pull.token}/pulls/{pull.number}",
        dashboard=dashboard_url if await sees_project(request, desk, pull.project_id) else None,
    )


def _find_merge_command(desk: Desk, pull: LocalPull) -> str | None:
    """Returns the git command to run where the base branch is checked out, without the path; None if it is nowhere."""
    project = desk.projects.get(pull.project_id)
    return f"git merge {pull.branch}" if find_work_tree(project.repository, pull.base) else None
