"""Webhooks of forges: POST /webhooks/{projectId}. Authenticated by the project's webhook secret, not by an API key."""

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from copydesk.desk import Desk
from copydesk.jobs.publish.forges.webhooks.receiver import WebhookReceiver
from copydesk.web.api.dependencies import OpenDesk, ProjectId

router = APIRouter(include_in_schema=False)


@router.post("/webhooks/{projectId}")
async def receive_webhook(project_id: ProjectId, request: Request, desk: OpenDesk) -> Response:
    """Handles a delivery and returns its outcome. Forges show the response, so it says why a delivery was ignored."""
    # Runs outside of the API's thread pool, because calls to a forge may be slow.
    result = await asyncio.to_thread(
        _create_receiver(desk).handle_delivery, project_id, dict(request.headers), await request.body()
    )
    return JSONResponse({"outcome": result.outcome, "why": result.reason, "jobId": result.job_id}, status_code=202)


def check_project(desk: Desk, project_id: str, headers: Mapping[str, str]) -> None:
    """Raises SignatureRejected before the body is read, if the delivery cannot be genuine."""
    _create_receiver(desk).check_project(project_id, headers)


def _create_receiver(desk: Desk) -> WebhookReceiver:
    return WebhookReceiver(desk.database, desk.projects, desk.jobs, desk.secrets)
