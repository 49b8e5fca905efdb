"""The page of a project's context repositories: the list, a form to add one, and a button to remove one."""

import asyncio

from fastapi import APIRouter, Request, Response

from copydesk.core.errors import RequestError
from copydesk.core.projects.projects import FORGES, Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.jobs.projects.context_repositories import MAX_CONTEXT_REPOSITORIES, ContextInUse, NewContext
from copydesk.web.dashboard.auth.access import AdminPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()
EMPTY_FORM = {"name": "", "repository": "", "ref": "", "forge": ""}


@router.get("/projects/{project_id}/context")
async def context_page(request: Request, project_id: str, signed_in: ViewerRequest) -> Response:
    settings = signed_in.desk.settings
    message = read_message(request, settings)
    project = await signed_in.get_project(project_id)
    response = await _render_context_page(signed_in, project, EMPTY_FORM, message=message)
    if message:
        delete_message(response, settings)
    return response


@router.post("/projects/{project_id}/context")
async def add_context(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    typed = {name: post.form.get(name).strip() for name in EMPTY_FORM}
    new = NewContext(
        typed["name"],
        typed["repository"],
        typed["ref"] or None,
        typed["forge"] or None,
        post.form.get("secret").strip() or None,
    )
    try:
        # The host may be slow, so this does not use the small thread pool that the other pages share.
        only_remote = not post.person.may("admin")  # a path on the server may belong to another project
        context = await asyncio.to_thread(
            post.desk.contexts.add, project, new, actor=post.person.email, only_remote=only_remote
        )
    except RequestError as error:
        return await _render_context_page(post, project, typed, error)
    message = f"Added {context.name}. Jobs read its branch {context.ref} from now on."
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/context", message)


@router.post("/projects/{project_id}/context/{name}/remove")
async def remove_context(project_id: str, name: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    try:
        await run_in_thread(post.desk.contexts.remove, project.id, name, actor=post.person.email)
    except ContextInUse as error:
        return await _render_context_page(post, project, EMPTY_FORM, refusal=error)
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/context", f"Removed {name}.")


async def _render_context_page(
    signed_in: SignedInRequest,
    project: Project,
    typed: dict[str, str],
    error: RequestError | None = None,
    message: str = "",
    refusal: RequestError | None = None,
) -> Response:
    """Renders the page. `error` says why a repository was not added, and `refusal` why one was not removed."""
    contexts = await run_in_thread(signed_in.desk.contexts.list, project.id)
    return render_page(
        "context.html",
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Context repositories",
        contexts=contexts,
        max_contexts=MAX_CONTEXT_REPOSITORIES,
        typed=typed,
        fault=error,
        message=message,
        error=refusal,
        forges=FORGES,
    )
