"""The review page of a pull request of the forge `local`: shows, merges and closes it."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Response

from copydesk.core.errors import RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.local import LocalPull
from copydesk.web.dashboard.auth.access import EditorPost, SignedInPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.jobs.change_view import DiffLayout, load_change_view, raw_diff_response
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()
PULL_PATH = "/projects/{project_id}/pulls/{number}"
PullNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


class MergeFailed(RequestError):
    status, code = 502, "repository_error"
    message = "The repository could not be accessed."


@router.get(PULL_PATH)
async def pull_page(
    project_id: str, number: PullNumber, signed_in: ViewerRequest, view: DiffLayout = "unified"
) -> Response:
    return await _render_pull_page(signed_in, await signed_in.get_project(project_id), number, view)


@router.post(f"{PULL_PATH}/merge")
async def merge_pull(project_id: str, number: PullNumber, post: EditorPost) -> Response:
    return await _finish_pull(post, project_id, number, _merge_pull)


@router.post(f"{PULL_PATH}/close")
async def close_pull(project_id: str, number: PullNumber, post: EditorPost) -> Response:
    return await _finish_pull(post, project_id, number, _close_pull)


def _merge_pull(signed_in: SignedInRequest, project: Project, pull: LocalPull) -> None:
    try:
        signed_in.desk.pulls.merge(pull, signed_in.desk.open_mirror(project), signed_in.person.email)
    except RepositoryFailed as failure:
        raise MergeFailed(str(failure)) from None


def _close_pull(signed_in: SignedInRequest, _project: Project, pull: LocalPull) -> None:
    signed_in.desk.pulls.close(pull, signed_in.person.email)


async def _finish_pull(
    post: SignedInPost, project_id: str, number: int, finish: Callable[[SignedInRequest, Project, LocalPull], None]
) -> Response:
    project = await post.get_project(project_id)
    pull = await run_in_thread(post.desk.pulls.get_pull, project.id, number)
    try:
        await run_in_thread(finish, post, project, pull)
    except RequestError as error:
        return await _render_pull_page(post, project, number, error=error)
    return redirect(f"/projects/{project.id}/pulls/{number}")


async def _render_pull_page(
    signed_in: SignedInRequest,
    project: Project,
    number: int,
    layout: DiffLayout = "unified",
    error: RequestError | None = None,
) -> Response:
    pull = await run_in_thread(signed_in.desk.pulls.get_pull, project.id, number)
    if layout == "raw":
        return raw_diff_response(await run_in_thread(signed_in.desk.jobs.diff, project.id, pull.job_id))
    return await run_in_thread(
        render_page,
        "pull.html",
        error.status if error else 200,
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title=f"{pull.title} · pull request {pull.number}",
        error=error.message if error else "",
        pull=pull,
        job=await run_in_thread(signed_in.desk.jobs.get, project.id, pull.job_id),
        change=await run_in_thread(load_change_view, signed_in.desk, project.id, pull.job_id),
        layout=layout,
        page_url=f"/projects/{project.id}/pulls/{pull.number}",
        dashboard=None,
    )
