"""Webhooks of forges: POST /webhooks/{projectId}. The project's webhook secret opens it, not an API key."""

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from copydesk.desk import Desk
from copydesk.jobs.publish.forges.webhooks.receiver import WebhookReceiver
from copydesk.web.api.jobs import OpenDesk, ProjectId

router = APIRouter(include_in_schema=False)


@router.post("/webhooks/{projectId}")
async def receive_webhook(project_id: ProjectId, request: Request, desk: OpenDesk) -> Response:
    """Says what became of the delivery: forges show the answer to whoever looks why nothing happened."""
    # A forge may be slow to answer, so not in the few threads that the API's own calls share.
    result = await asyncio.to_thread(
        _create_receiver(desk).handle_delivery, project_id, dict(request.headers), await request.body()
    )
    return JSONResponse({"outcome": result.outcome, "why": result.reason, "jobId": result.job_id}, status_code=202)


def check_project(desk: Desk, project_id: str, headers: Mapping[str, str]) -> None:
    """Raises SignatureRejected for a delivery that cannot be genuine, before its body is read."""
    _create_receiver(desk).check_project(project_id, headers)


def _create_receiver(desk: Desk) -> WebhookReceiver:
    return WebhookReceiver(desk.database, desk.projects, desk.jobs, desk.secrets)
