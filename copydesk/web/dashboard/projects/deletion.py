"""The page that deletes a project, after its name was typed as a confirmation."""

import asyncio

from fastapi import APIRouter, Response

from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.jobs.storage.stats import ProjectJobCounts, count_jobs_by_project
from copydesk.web.dashboard.auth.access import GlobalAdminPost, GlobalAdminRequest, SignedInRequest
from copydesk.web.dashboard.flash_messages import redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()


@router.get("/projects/{project_id}/delete")
async def deletion_page(project_id: str, signed_in: GlobalAdminRequest) -> Response:
    return await _render_deletion_page(signed_in, await signed_in.get_project(project_id))


@router.post("/projects/{project_id}/delete")
async def delete_project(project_id: str, post: GlobalAdminPost) -> Response:
    project = await post.get_project(project_id)
    desk = post.desk
    if post.form.get("name").strip() != project.name:
        error = InvalidRequest("The name is different. Nothing was deleted.")
        return await _render_deletion_page(post, project, error)
    # It may take long, so this does not use the small thread pool that the other pages share.
    has_deleted_views = await asyncio.to_thread(desk.delete_project, project, actor=post.person.email)
    message = f"Deleted the project {project.name}."
    if not has_deleted_views:
        message += " Its page views are deleted once the analytics store is available."
    return redirect_with_message(desk.settings, "/projects", message)


async def _render_deletion_page(
    signed_in: SignedInRequest, project: Project, error: RequestError | None = None
) -> Response:
    desk = signed_in.desk
    job_counts = await run_in_thread(count_jobs_by_project, desk.database)
    api_keys = await run_in_thread(desk.keys.list_for_project, project.id)
    return render_page(
        "project-delete.html",
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Delete project",
        error=error,
        running=job_counts.get(project.id, ProjectJobCounts()).at_work,
        active_keys=sum(key.is_active for key in api_keys),
    )
