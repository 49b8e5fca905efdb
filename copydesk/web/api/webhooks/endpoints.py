"""The API of webhooks that Copydesk sends: /v2/agent/{projectId}/webhooks"""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request

from copydesk.core.runtime.thread_pool import run_in_pool, run_in_thread
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.webhooks.schemas import (
    CreatedWebhookResponse,
    DeliveryDetailsResponse,
    DeliveryListResponse,
    DeliveryResponse,
    NewWebhookRequest,
    WebhookChangeRequest,
    WebhookListResponse,
    WebhookResponse,
)

router = APIRouter(prefix="/v2/agent/{projectId}", tags=["webhooks"], dependencies=[Depends(bearer)])

HookId = Annotated[str, Path(alias="webhookId", description="The ID of the webhook.")]
DeliveryId = Annotated[str, Path(alias="deliveryId", description="The ID of the delivery.")]
PageLimit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=40, description="The nextCursor of the page before.")]


@router.get("/webhooks", responses=error_responses(), operation_id="listWebhooks")
async def list_webhooks(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> WebhookListResponse:
    """Lists the project's webhooks, without their secrets."""
    endpoints = await run_in_thread(desk.webhooks.endpoints.list_for_project, project.id)
    return WebhookListResponse(webhooks=[WebhookResponse.from_endpoint(each) for each in endpoints])


@router.post("/webhooks", status_code=201, responses=error_responses(409, 413, 415), operation_id="addWebhook")
async def add_webhook(
    project_id: ProjectId, project: CurrentProject, body: NewWebhookRequest, desk: OpenDesk, request: Request
) -> CreatedWebhookResponse:
    """Adds a webhook and returns its signing secret, once."""
    # Resolving the host may be slow, so this does not use the threads that the other requests share.
    created = await run_in_pool(
        "webhooks",
        desk.webhooks.endpoints.add,
        project.id,
        body.url,
        payload_format=body.format,
        events=body.events,
        actor=request.state.key.id,
    )
    return CreatedWebhookResponse.from_secret(*created)


@router.get("/webhooks/{webhookId}", responses=error_responses(), operation_id="getWebhook")
async def get_webhook(
    project_id: ProjectId, webhook_id: HookId, project: CurrentProject, desk: OpenDesk
) -> WebhookResponse:
    """Returns a webhook, without its secret."""
    return WebhookResponse.from_endpoint(await run_in_thread(desk.webhooks.endpoints.get, project.id, webhook_id))


@router.patch("/webhooks/{webhookId}", responses=error_responses(413, 415), operation_id="changeWebhook")
async def change_webhook(
    project_id: ProjectId,
    webhook_id: HookId,
    project: CurrentProject,
    body: WebhookChangeRequest,
    desk: OpenDesk,
    request: Request,
) -> WebhookResponse:
    """Changes the fields that are sent. Enabling a webhook forgets its earlier failures."""
    endpoint = await run_in_pool(
        "webhooks",
        desk.webhooks.endpoints.change,
        project.id,
        webhook_id,
        url=body.url,
        payload_format=body.format,
        events=body.events,
        enabled=body.enabled,
        actor=request.state.key.id,
    )
    return WebhookResponse.from_endpoint(endpoint)


@router.delete("/webhooks/{webhookId}", status_code=204, responses=error_responses(), operation_id="removeWebhook")
async def remove_webhook(
    project_id: ProjectId, webhook_id: HookId, project: CurrentProject, desk: OpenDesk, request: Request
) -> None:
    """Removes a webhook with its log and the deliveries that wait."""
    await run_in_thread(desk.webhooks.endpoints.remove, project.id, webhook_id, actor=request.state.key.id)


@router.post("/webhooks/{webhookId}/rotate", responses=error_responses(), operation_id="rotateWebhookSecret")
async def rotate_webhook_secret(
    project_id: ProjectId, webhook_id: HookId, project: CurrentProject, desk: OpenDesk, request: Request
) -> CreatedWebhookResponse:
    """Creates a new signing secret and returns it, once. For 24 hours, deliveries are signed with both."""
    actor: str = request.state.key.id
    created = await run_in_thread(desk.webhooks.endpoints.rotate_secret, project.id, webhook_id, actor=actor)
    return CreatedWebhookResponse.from_secret(*created)


@router.post("/webhooks/{webhookId}/test", status_code=202, responses=error_responses(), operation_id="testWebhook")
async def test_webhook(
    project_id: ProjectId, webhook_id: HookId, project: CurrentProject, desk: OpenDesk, request: Request
) -> DeliveryResponse:
    """Queues the event `webhook.test`. A worker sends it within seconds, once."""
    actor: str = request.state.key.id
    delivery = await run_in_thread(desk.webhooks.log.send_test, project.id, webhook_id, actor=actor)
    return DeliveryResponse.from_delivery(delivery)


@router.get("/webhooks/{webhookId}/deliveries", responses=error_responses(), operation_id="listWebhookDeliveries")
async def list_deliveries(
    project_id: ProjectId,
    webhook_id: HookId,
    project: CurrentProject,
    desk: OpenDesk,
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> DeliveryListResponse:
    """Lists deliveries, newest first."""
    page, next_cursor = await run_in_thread(desk.webhooks.log.list_page, project.id, webhook_id, limit, cursor)
    return DeliveryListResponse(
        deliveries=[DeliveryResponse.from_delivery(each) for each in page], next_cursor=next_cursor
    )


@router.get(
    "/webhooks/{webhookId}/deliveries/{deliveryId}", responses=error_responses(), operation_id="getWebhookDelivery"
)
async def get_delivery(
    project_id: ProjectId, webhook_id: HookId, delivery_id: DeliveryId, project: CurrentProject, desk: OpenDesk
) -> DeliveryDetailsResponse:
    """Returns a delivery with each attempt."""
    details = await run_in_thread(desk.webhooks.log.get, project.id, webhook_id, delivery_id)
    return DeliveryDetailsResponse.from_details(details)


@router.post(
    "/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver",
    status_code=202,
    responses=error_responses(),
    operation_id="redeliverWebhook",
)
async def redeliver(
    project_id: ProjectId,
    webhook_id: HookId,
    delivery_id: DeliveryId,
    project: CurrentProject,
    desk: OpenDesk,
    request: Request,
) -> DeliveryResponse:
    """Sends an event again, with the same `webhook-id`, as a new delivery."""
    actor: str = request.state.key.id
    delivery = await run_in_thread(desk.webhooks.log.redeliver, project.id, webhook_id, delivery_id, actor=actor)
    return DeliveryResponse.from_delivery(delivery)
