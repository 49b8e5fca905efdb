"""The page that changes the address of a project's repository, after a check that it is the same repository."""

import asyncio

from fastapi import APIRouter, Response

from copydesk.core.errors import RequestError
from copydesk.core.projects.projects import FORGES, Project
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.repository_move import NewAddress, move_repository
from copydesk.web.dashboard.auth.access import GlobalAdminPost, GlobalAdminRequest, SignedInRequest
from copydesk.web.dashboard.flash_messages import redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()


@router.get("/projects/{project_id}/repository")
async def repository_page(project_id: str, signed_in: GlobalAdminRequest) -> Response:
    return _render_repository_page(signed_in, await signed_in.get_project(project_id))


@router.post("/projects/{project_id}/repository")
async def change_repository(project_id: str, post: GlobalAdminPost) -> Response:
    project = await post.get_project(project_id)
    desk = post.desk
    address = post.form.get("repository").strip()
    forge = post.form.get("forge") or None
    new = NewAddress(address, forge if forge in FORGES else None, post.form.get("secret").strip() or None)
    try:
        # The host may be slow, so this does not use the small thread pool that the other pages share.
        moved = await asyncio.to_thread(
            move_repository, desk.projects, desk.secrets, project, new, actor=post.person.email
        )
    except RequestError as error:
        return _render_repository_page(post, project, address, error)
    except JobFailed as failure:
        return _render_repository_page(post, project, address, str(failure), 422)
    return redirect_with_message(
        desk.settings, f"/projects/{project.id}/settings", f"The repository is {moved.repository} now."
    )


def _render_repository_page(
    signed_in: SignedInRequest, project: Project, address: str = "", fault: RequestError | str = "", status: int = 200
) -> Response:
    return render_page(
        "project-repository.html",
        status,
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Change repository",
        address=address,
        fault=fault,
        forges=FORGES,
    )
