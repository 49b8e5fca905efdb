"""Webhooks of forges: POST /webhooks/{projectId}. Authenticated by the project's webhook secret, not by an API key."""

import asyncio
from collections.abc import Mapping
from contextvars import copy_context

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.publish.forges.webhooks.inbox import PendingEvent
from copydesk.jobs.publish.forges.webhooks.receiver import KEPT_REASON, DeliveryResult, WebhookReceiver
from copydesk.web.api.dependencies import OpenDesk, ProjectId

router = APIRouter(include_in_schema=False)

RESPONSE_TIMEOUT_SECONDS = 4.0
"""How long to wait for the forge before the response. Gitea waits 5 seconds for it, GitHub and GitLab 10."""


@router.post("/webhooks/{projectId}")
async def receive_webhook(project_id: ProjectId, request: Request, desk: OpenDesk) -> Response:
    """Handles a delivery and returns its outcome. Forges show the response, so it says why a delivery was ignored."""
    receiver = _create_receiver(desk)
    accepted = await run_in_thread(receiver.accept_delivery, project_id, dict(request.headers), await request.body())
    result = await _process_in_time(receiver, accepted) if isinstance(accepted, PendingEvent) else accepted
    return JSONResponse({"outcome": result.outcome, "why": result.reason, "jobId": result.job_id}, status_code=202)


async def _process_in_time(receiver: WebhookReceiver, pending: PendingEvent) -> DeliveryResult:
    """Processes a stored event. If that takes too long, it continues in its thread, and the response does not wait.

    Runs outside of the API's thread pool, because calls to a forge may be slow.
    """
    context = copy_context()
    processing = asyncio.get_running_loop().run_in_executor(None, context.run, receiver.process_event, pending)
    try:
        return await asyncio.wait_for(asyncio.shield(processing), RESPONSE_TIMEOUT_SECONDS)
    except TimeoutError:
        return DeliveryResult("kept", f"{KEPT_REASON} The forge has not answered yet.")


def check_project(desk: Desk, project_id: str, headers: Mapping[str, str]) -> None:
    """Raises SignatureRejected before the body is read, if the delivery cannot be genuine."""
    _create_receiver(desk).check_project(project_id, headers)


def _create_receiver(desk: Desk) -> WebhookReceiver:
    return WebhookReceiver(desk.database, desk.projects, desk.jobs, desk.secrets, desk.look_requests)
