"""The page of a project's weekly summary: subscribe, choose the time zone, manage addresses, and a preview."""

from typing import Any, Literal
from zoneinfo import available_timezones

from fastapi import APIRouter, Request, Response

from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.sharing.summary.subscriptions import MAX_ADDRESSES
from copydesk.web.dashboard.auth.access import AdminPost, SignedInPost, SignedInRequest, ViewerPost, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.responses.html import PAGE_HEADERS, render_page

router = APIRouter(prefix="/projects/{project_id}/summary")
PREVIEW_HEADERS = {
    **PAGE_HEADERS,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-popups",
}
"""A mail has its styles in its elements. The sandbox keeps everything else out."""


@router.get("")
async def summary_page(request: Request, project_id: str, signed_in: ViewerRequest) -> Response:
    settings = signed_in.desk.settings
    message = read_message(request, settings)
    response = await _render_summary_page(signed_in, await signed_in.get_project(project_id), message=message)
    if message:
        delete_message(response, settings)
    return response


@router.get("/preview")
async def preview_summary(
    project_id: str, signed_in: ViewerRequest, view: Literal["html", "text"] = "html"
) -> Response:
    """Shows the mail as it would be if it was sent now."""
    project = await signed_in.get_project(project_id)
    summaries = signed_in.desk.sharing.summaries
    report = await run_in_thread(summaries.build_report, project, clock.now())
    summary = summaries.write(report, None)
    if view == "text":
        return Response(summary.text, media_type="text/plain; charset=utf-8", headers=PREVIEW_HEADERS)
    return Response(summary.html, media_type="text/html; charset=utf-8", headers=PREVIEW_HEADERS)


@router.post("/subscribe")
async def change_own_subscription(project_id: str, post: ViewerPost) -> Response:
    project = await post.get_project(project_id)
    subscriptions = post.desk.sharing.subscriptions
    if post.form.get("action") == "unsubscribe":
        await run_in_thread(subscriptions.unsubscribe_person, project.id, post.person)
        return _redirect(post, project, "You do not get the weekly summary anymore.")
    await run_in_thread(subscriptions.subscribe_person, project.id, post.person)
    return _redirect(post, project, f"The weekly summary goes to {post.person.email}.")


@router.post("/timezone")
async def change_timezone(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    timezone = post.form.get("timezone").strip()
    try:
        schedule = await run_in_thread(
            post.desk.sharing.subscriptions.set_timezone, project.id, timezone, actor=post.person.email
        )
    except InvalidRequest as error:
        return await _render_summary_page(post, project, error)
    return _redirect(post, project, f"Saved. Summaries go out on Mondays at 8:00, {schedule.timezone}.")


@router.post("/addresses")
async def add_address(project_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    email = post.form.get("email")
    try:
        added = await run_in_thread(
            post.desk.sharing.subscriptions.add_address, project.id, email, actor=post.person.email
        )
    except InvalidRequest as error:
        return await _render_summary_page(post, project, error, typed=email)
    return _redirect(post, project, f"Added {added.email}.")


@router.post("/addresses/{subscriber_id}/remove")
async def remove_address(project_id: str, subscriber_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    removed = await run_in_thread(
        post.desk.sharing.subscriptions.remove_address, project.id, subscriber_id, actor=post.person.email
    )
    return _redirect(post, project, f"Removed {removed.email}.")


def _redirect(post: SignedInPost, project: Project, message: str) -> Response:
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/summary", message)


async def _render_summary_page(
    signed_in: SignedInRequest,
    project: Project,
    error: RequestError | None = None,
    message: str = "",
    typed: str = "",
) -> Response:
    subscriptions = signed_in.desk.sharing.subscriptions

    def load() -> dict[str, Any]:
        return {
            "schedule": subscriptions.get_schedule(project.id),
            "subscription": subscriptions.find_person(project.id, signed_in.person),
            "addresses": subscriptions.list_addresses(project.id) if signed_in.may("admin") else [],
        }

    return render_page(
        "summary.html",
        signed_in=signed_in,
        project=project,
        tab="readership",
        title="Weekly summary",
        has_mail=signed_in.desk.sharing.mail_server is not None,
        timezones=sorted(available_timezones()) if signed_in.may("admin") else [],
        max_addresses=MAX_ADDRESSES,
        fault=error,
        message=message,
        typed=typed,
        **await run_in_thread(load),
    )
