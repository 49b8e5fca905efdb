"""The pages of a project's webhooks: the list, a form to add one, and a page for each with its settings and log."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response

from copydesk.core.errors import NotFound, RequestError
from copydesk.core.ids import new_id
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_pool, run_in_thread
from copydesk.web.dashboard.auth.access import AdminPost, SignedInPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.responses.html import render_page
from copydesk.webhooks.delivery_log import DeliveryDetails
from copydesk.webhooks.endpoints import EVENT_TYPES, FORMATS, CreatedEndpoint, validate_events

T = TypeVar("T")

router = APIRouter()
EVENT_LABELS = {
    "job.completed": "Job completed",
    "job.failed": "Job failed",
    "job.archived": "Job archived",
    "pull_request.opened": "Pull request opened",
    "pull_request.merged": "Pull request merged",
    "pull_request.closed": "Pull request closed",
    "automation.failed": "Automation failed",
    "feedback.created": "Feedback received",
    "summary.weekly": "Weekly summary",
    "webhook.test": "Test",
}
FORMAT_LABELS = {"json": "JSON, for programs", "slack": "Slack message"}
STATE_LABELS = {"enabled": "Enabled", "disabled": "Disabled", "gone": "Gone: answered 410", "failing": "Failing"}
FORM_LABELS: dict[str, Any] = {
    "events": {event: EVENT_LABELS[event] for event in EVENT_TYPES},
    "formats": {name: FORMAT_LABELS[name] for name in FORMATS},
    "states": STATE_LABELS,
}
"""The labels of events, formats and states on the pages of webhooks."""


@router.get("/projects/{project_id}/webhooks")
async def webhooks_page(request: Request, project_id: str, signed_in: ViewerRequest) -> Response:
    settings = signed_in.desk.settings
    message = read_message(request, settings)
    project = await signed_in.get_project(project_id)
    typed = {"url": "", "format": "json", "events": list(EVENT_TYPES)}
    response = await _render_list(signed_in, project, typed, message=message)
    if message:
        delete_message(response, settings)
    return response


@router.post("/projects/{project_id}/webhooks")
async def add_webhook(project_id: str, post: AdminPost) -> Response:
    """Adds a webhook and shows its secret in the response, so that it is never in a cookie.

    The form contains the id of the new webhook, so that a reload of the response creates no second one."""
    project = await post.get_project(project_id)
    form = post.form
    typed = {"url": form.get("url").strip(), "format": form.get("format"), "events": form.get_all("event")}
    try:
        validate_events(form.get_all("event"))  # none means all for other callers, but not for a form
        # Resolving the host may be slow, so this does not use the threads that the other pages share.
        created = await run_in_pool(
            "webhooks",
            post.desk.webhooks.endpoints.add,
            project.id,
            form.get("url").strip(),
            payload_format=form.get("format"),
            events=form.get_all("event"),
            endpoint_id=form.get("id"),
            actor=post.person.email,
        )
    except RequestError as error:
        return await _render_list(post, project, typed, error)
    return _render_secret(post, project, created, "Webhook added", 201)


@router.get("/projects/{project_id}/webhooks/{webhook_id}")
async def webhook_page(request: Request, project_id: str, webhook_id: str, signed_in: ViewerRequest) -> Response:
    settings = signed_in.desk.settings
    message = read_message(request, settings)
    project = await signed_in.get_project(project_id)
    cursor = request.query_params.get("after") or None
    response = await _render_webhook(signed_in, project, webhook_id, cursor, message=message)
    if message:
        delete_message(response, settings)
    return response


@router.post("/projects/{project_id}/webhooks/{webhook_id}/change")
async def change_webhook(project_id: str, webhook_id: str, post: AdminPost) -> Response:
    """Saves the events, whether the webhook is enabled, and a new URL if one was entered."""
    project = await post.get_project(project_id)
    form = post.form
    change = run_in_pool(
        "webhooks",
        post.desk.webhooks.endpoints.change,
        project.id,
        webhook_id,
        url=form.get("url").strip() or None,
        payload_format=form.get("format"),
        events=form.get_all("event"),
        enabled="enabled" in form,
        actor=post.person.email,
    )
    return await _finish_action(post, project, webhook_id, change, lambda _: "Saved.")


@router.post("/projects/{project_id}/webhooks/{webhook_id}/rotate")
async def rotate_secret(project_id: str, webhook_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    rotate = post.desk.webhooks.endpoints.rotate_secret
    created = await run_in_thread(rotate, project.id, webhook_id, actor=post.person.email)
    return _render_secret(post, project, created, "Secret rotated", 200)


@router.post("/projects/{project_id}/webhooks/{webhook_id}/test")
async def test_webhook(project_id: str, webhook_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    test = run_in_pool("webhooks", post.desk.webhooks.test_now, project.id, webhook_id, actor=post.person.email)
    return await _finish_action(post, project, webhook_id, test, describe_test)


@router.post("/projects/{project_id}/webhooks/{webhook_id}/remove")
async def remove_webhook(project_id: str, webhook_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    remove = post.desk.webhooks.endpoints.remove
    endpoint = await run_in_thread(remove, project.id, webhook_id, actor=post.person.email)
    message = f"Removed the webhook to {endpoint.shown_url}."
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/webhooks", message)


@router.get("/projects/{project_id}/webhooks/{webhook_id}/deliveries/{delivery_id}")
async def delivery_page(project_id: str, webhook_id: str, delivery_id: str, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    webhooks = signed_in.desk.webhooks
    endpoint = await run_in_thread(webhooks.endpoints.get, project.id, webhook_id)
    details = await run_in_thread(webhooks.log.get, project.id, webhook_id, delivery_id)
    return render_page(
        "webhook-delivery.html",
        200,
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Delivery",
        endpoint=endpoint,
        details=details,
        event_labels=EVENT_LABELS,
    )


@router.post("/projects/{project_id}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver")
async def redeliver(project_id: str, webhook_id: str, delivery_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    redelivery = run_in_thread(
        post.desk.webhooks.log.redeliver, project.id, webhook_id, delivery_id, actor=post.person.email
    )
    message = "Queued again, with the same ID. Reload the page to see the result."
    return await _finish_action(post, project, webhook_id, redelivery, lambda _: message)


def describe_test(details: DeliveryDetails) -> str:
    """Returns the result of a test as a sentence."""
    if not details.attempts:
        return "The test is queued. Reload the page to see the result."
    attempt = details.attempts[-1]
    if attempt.error is None:
        return f"The test was delivered: {attempt.status} in {attempt.duration_ms:,} ms."
    return f"The test was not delivered. {attempt.error}"


async def _finish_action(
    post: SignedInPost, project: Project, webhook_id: str, action: Awaitable[T], describe: Callable[[T], str]
) -> Response:
    """Waits for an action on a webhook. Redirects to its page with a message, or shows the error on that page."""
    try:
        result = await action
    except NotFound:
        raise
    except RequestError as error:
        return await _render_webhook(post, project, webhook_id, None, error)
    path = f"/projects/{project.id}/webhooks/{webhook_id}"
    return redirect_with_message(post.desk.settings, path, describe(result))


async def _render_list(
    signed_in: SignedInRequest,
    project: Project,
    typed: Mapping[str, object],
    error: RequestError | None = None,
    message: str = "",
) -> Response:
    endpoints = await run_in_thread(signed_in.desk.webhooks.endpoints.list_for_project, project.id)
    return render_page(
        "webhooks.html",
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Webhooks",
        endpoints=endpoints,
        typed=typed,
        fault=error,
        message=message,
        **FORM_LABELS,
        next_id=new_id("hook"),
    )


async def _render_webhook(
    signed_in: SignedInRequest,
    project: Project,
    webhook_id: str,
    cursor: str | None,
    error: RequestError | None = None,
    message: str = "",
) -> Response:
    webhooks = signed_in.desk.webhooks
    endpoint = await run_in_thread(webhooks.endpoints.get, project.id, webhook_id)
    deliveries, next_cursor = await run_in_thread(webhooks.log.list_page, project.id, webhook_id, 25, cursor)
    return render_page(
        "webhook-endpoint.html",
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="Webhook",
        endpoint=endpoint,
        deliveries=deliveries,
        next_cursor=next_cursor,
        fault=error,
        message=message,
        event_labels=EVENT_LABELS,
        **FORM_LABELS,
    )


def _render_secret(post: AdminPost, project: Project, created: CreatedEndpoint, title: str, status: int) -> Response:
    return render_page(
        "webhook-made.html",
        status,
        signed_in=post,
        project=project,
        tab="settings",
        title=title,
        endpoint=created.endpoint,
        secret=created.secret,
    )
