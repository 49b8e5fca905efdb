"""The review of a pull request that Copydesk itself keeps: look at it, merge it, close it."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Response

from copydesk.core.errors import Refusal
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.local import Pull
from copydesk.web.dashboard.auth.session import EditorPost, Post, Viewer, Visit, see
from copydesk.web.dashboard.jobs.change_view import Look, change_of, raw
from copydesk.web.responses.html import page

router = APIRouter()
HERE = "/projects/{project_id}/pulls/{number}"
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


class RepositoryAway(Refusal):
    status, code = 502, "repository_error"
    message = "The repository could not be used."


@router.get(HERE)
async def pull_page(project_id: str, number: Number, visit: Viewer, view: Look = "unified") -> Response:
    return await _page(visit, await visit.project(project_id), number, view)


@router.post(f"{HERE}/merge")
async def merge(project_id: str, number: Number, post: EditorPost) -> Response:
    return await _ended(post, project_id, number, _merge)


@router.post(f"{HERE}/close")
async def close(project_id: str, number: Number, post: EditorPost) -> Response:
    return await _ended(post, project_id, number, _close)


def _merge(visit: Visit, project: Project, pull: Pull) -> None:
    try:
        visit.desk.pulls.merge(pull, visit.desk.mirror(project), visit.person.email)
    except RepositoryFailed as failure:
        raise RepositoryAway(str(failure)) from None


def _close(visit: Visit, _project: Project, pull: Pull) -> None:
    visit.desk.pulls.close(pull, visit.person.email)


async def _ended(post: Post, project_id: str, number: int, end: Callable[[Visit, Project, Pull], None]) -> Response:
    project = await post.project(project_id)
    pull = await call(post.desk.pulls.get, project.id, number)
    try:
        await call(end, post, project, pull)
    except Refusal as refusal:
        return await _page(post, project, number, error=refusal)
    return see(f"/projects/{project.id}/pulls/{number}")


async def _page(
    visit: Visit, project: Project, number: int, look: Look = "unified", error: Refusal | None = None
) -> Response:
    pull = await call(visit.desk.pulls.get, project.id, number)
    if look == "raw":
        return raw(await call(visit.desk.jobs.diff, project.id, pull.job_id))
    return await call(
        page,
        "pull.html",
        error.status if error else 200,
        visit=visit,
        project=project,
        tab="jobs",
        title=f"{pull.title} · pull request {pull.number}",
        error=error.message if error else "",
        pull=pull,
        job=await call(visit.desk.jobs.get, project.id, pull.job_id),
        change=await call(change_of, visit.desk, project.id, pull.job_id),
        look=look,
        here=f"/projects/{project.id}/pulls/{pull.number}",
        dashboard=None,
    )
