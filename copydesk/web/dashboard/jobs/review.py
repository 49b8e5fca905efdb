"""The review page of a pull request of the forge `local`: shows, merges and closes it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from copydesk.core.errors import RequestError
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.local import MERGED, OPEN, LocalPull
from copydesk.jobs.publish.git.local_repository import build_merge_command, find_work_tree
from copydesk.jobs.publish.git.mirror import create_git
from copydesk.jobs.publish.pull_body import remove_risks
from copydesk.web.dashboard.auth.access import EditorPost, SignedInPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.dashboard.jobs.change_view import DiffLayout, load_change_view, raw_diff_response
from copydesk.web.dashboard.jobs.line_comments import FollowUp
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()
PULL_PATH = "/projects/{project_id}/pulls/{number}"
PullNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]
HEAD_TIMEOUT_SECONDS = 5.0
"""How long the page waits for git to tell the commit of the base branch."""


class MergeFailed(RequestError):
    status, code = 502, "repository_error"
    message = "The repository could not be accessed."


@router.get(PULL_PATH)
async def pull_page(
    request: Request, project_id: str, number: PullNumber, signed_in: ViewerRequest, view: DiffLayout = "unified"
) -> Response:
    settings = signed_in.desk.settings
    error = read_message(request, settings)
    response = await _render_pull_page(signed_in, await signed_in.get_project(project_id), number, view, error)
    if error:
        delete_message(response, settings)
    return response


@router.post(f"{PULL_PATH}/merge")
async def merge_pull(project_id: str, number: PullNumber, post: EditorPost) -> Response:
    return await _finish_pull(post, project_id, number, _merge_pull)


@router.post(f"{PULL_PATH}/close")
async def close_pull(project_id: str, number: PullNumber, post: EditorPost) -> Response:
    return await _finish_pull(post, project_id, number, _close_pull)


def _merge_pull(signed_in: SignedInRequest, project: Project, pull: LocalPull) -> None:
    if pull.state == MERGED:  # the service noticed it after the page was shown
        return
    try:
        signed_in.desk.pulls.merge(pull, signed_in.desk.open_mirror(project), signed_in.person.email)
    except RepositoryFailed as failure:
        raise MergeFailed(str(failure)) from None


def _close_pull(signed_in: SignedInRequest, _project: Project, pull: LocalPull) -> None:
    signed_in.desk.pulls.close(pull, signed_in.person.email)


async def _finish_pull(
    post: SignedInPost, project_id: str, number: int, finish: Callable[[SignedInRequest, Project, LocalPull], None]
) -> Response:
    """Merges or closes a pull request and redirects to its page, which shows an error if there was one.

    An error that says when to try again is the response itself, because a redirect would lose that header.
    """
    project = await post.get_project(project_id)
    pull = await run_in_thread(post.desk.pulls.get_pull, project.id, number)
    page_path = f"/projects/{project.id}/pulls/{number}"
    try:
        await run_in_thread(finish, post, project, pull)
    except RequestError as error:
        if "Retry-After" in error.headers:
            return await _render_pull_page(post, project, number, "unified", error)
        return redirect_with_message(post.desk.settings, page_path, error.message)
    return redirect(page_path)


def _find_merge_command(desk: Desk, project: Project, pull: LocalPull) -> str | None:
    """Returns the command that merges the pull request where its base branch is checked out, or None.

    Copydesk does not move a branch that is checked out, so only a person can merge it. If one has, marks the pull
    request as merged at once; a merge that is not a fast-forward is noticed within a minute."""
    work_tree = find_work_tree(project.repository, pull.base) if pull.state == OPEN else None
    if work_tree is None:
        return None
    with suppress(RepositoryFailed):
        heads = create_git(project).list_heads(f"refs/heads/{pull.base}", seconds=HEAD_TIMEOUT_SECONDS)
        if heads.get(pull.base) == pull.head and desk.pulls.mark_merged(pull):
            return None
    return build_merge_command(work_tree, pull.branch)


async def _render_pull_page(
    signed_in: SignedInRequest,
    project: Project,
    number: int,
    layout: DiffLayout,
    error: RequestError | str,
) -> Response:
    pull = await run_in_thread(signed_in.desk.pulls.get_pull, project.id, number)
    if layout == "raw":
        return raw_diff_response(await run_in_thread(signed_in.desk.jobs.diff, project.id, pull.job_id))
    merge_command = await asyncio.to_thread(_find_merge_command, signed_in.desk, project, pull)
    if merge_command is None:
        pull = await run_in_thread(signed_in.desk.pulls.get_pull, project.id, number)  # it may be merged now
    job = await run_in_thread(signed_in.desk.jobs.get, project.id, pull.job_id)
    return await run_in_thread(
        render_page,
        "pull.html",
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title=f"{pull.title} · pull request {pull.number}",
        error=error,
        pull=pull,
        merge_command=merge_command,
        job=job,
        description=remove_risks(pull.body, job.risk),
        change=await run_in_thread(load_change_view, signed_in.desk, project.id, pull.job_id, layout),
        layout=layout,
        page_url=f"/projects/{project.id}/pulls/{pull.number}",
        job_url=f"/projects/{project.id}/jobs/{pull.job_id}",
        nonce=random_text(22),
        typed=FollowUp(),
        dashboard=None,
    )
