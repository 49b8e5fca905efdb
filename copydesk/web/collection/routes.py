"""Routes that collect views: /v1/analytics/{projectId}/events for servers, /v1/collect/… and /beacon.js for pages."""

from functools import lru_cache
from hashlib import sha256
from pathlib import Path as File
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from copydesk.analytics.page_view import DropReason
from copydesk.web.api.dependencies import CurrentProject, ProjectId, bearer, error_responses
from copydesk.web.api.schemas import BINARY_SCHEMA, TEXT_SCHEMA, ApiModel, ErrorResponse
from copydesk.web.collection.body_schemas import BEACON_BODY, EVENTS_BODY
from copydesk.web.collection.cors import CROSS_ORIGIN_HEADERS
from copydesk.web.collection.intake import NO_STORE_HEADERS, PIXEL_GIF, ViewIntake, collect_request_from_scope
from copydesk.web.responses.etags import etag_matches

router = APIRouter(tags=["collecting"])
BEACON_SCRIPT = File(__file__).parents[1] / "static" / "beacon.js"


class DroppedEventResponse(ApiModel):
    index: int
    """The position of the event in the array, or the number of its line, starting at 0."""
    reason: DropReason
    field: str | None = None
    """The field with the error, if one field is the reason."""
    message: str
    """The reason as a sentence."""


class CollectedResponse(ApiModel):
    accepted: int
    """The number of views and interactions that were stored. They are durable."""
    duplicates: int
    """The number of events that were already known."""
    dropped: list[DroppedEventResponse]
    """Events that were not counted, each with its reason. The three numbers add up to the number of events sent."""


EVENTS_ERRORS = error_responses(413, 415)
PUBLIC_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 403, 404, 413, 415, 429, 500, 503)
}


async def get_intake(request: Request) -> ViewIntake:
    intake: ViewIntake = request.state.arrivals
    return intake


CurrentIntake = Annotated[ViewIntake, Depends(get_intake)]
SiteId = Annotated[str, Path(alias="siteId", description="The site ID, as shown by `copydesk project show`.")]


@router.post(
    "/v1/analytics/{projectId}/events",
    status_code=202,
    response_model=CollectedResponse,
    responses=EVENTS_ERRORS,
    dependencies=[Depends(bearer)],
    openapi_extra={"requestBody": {"required": True, "content": EVENTS_BODY}},
    operation_id="sendEvents",
)
async def send_events(
    project_id: ProjectId, project: CurrentProject, intake: CurrentIntake, request: Request
) -> Response:
    """Sends page views, searches, questions and feedback from the site's server. The body is one event, an array of up
    to 1,000 events, or up to 10,000 lines with one event each (`application/x-ndjson`). It can be compressed with
    `Content-Encoding: gzip`. The response comes once everything is durable.

    A view with the status 404 or 410 is counted as a request for a missing page, apart from views.
    An event that is not a page view, or has an invalid field, is dropped with a reason. All other events are counted.
    Unknown fields are ignored."""
    return await intake.receive_events(project, request.headers, await request.body())


@router.post(
    "/v1/collect/{siteId}",
    status_code=202,
    response_model=CollectedResponse,
    responses=PUBLIC_ERRORS,
    openapi_extra={"requestBody": {"required": True, "content": BEACON_BODY}},
    operation_id="sendBeacon",
)
async def send_beacon(site_id: SiteId, intake: CurrentIntake, request: Request) -> Response:
    """Receives a view, a missing page, a search or feedback from the beacon on a page. Public, for the origins that the
    project allows. Also accepts the JSON as `text/plain`, which browsers send to other sites without a preflight
    request."""
    return await intake.receive_beacon(
        site_id, collect_request_from_scope(request.scope, request.headers), await request.body()
    )


@router.options("/v1/collect/{siteId}", include_in_schema=False)
async def preflight(site_id: SiteId, intake: CurrentIntake, request: Request) -> Response:
    return await intake.answer_preflight(site_id, collect_request_from_scope(request.scope, request.headers))


@router.get(
    "/v1/collect/{siteId}/pixel.gif",
    response_class=Response,
    responses={
        **PUBLIC_ERRORS,
        200: {"description": "An image with one pixel.", "content": {"image/gif": BINARY_SCHEMA}},
    },
    operation_id="pixel",
)
async def pixel(
    site_id: SiteId,
    intake: CurrentIntake,
    request: Request,
    u: Annotated[str | None, Query(description="The URL of the page; the default is the `Referer` header.")] = None,
) -> Response:
    """Counts a view without a script. If the view is not counted, the header `X-Dropped` contains the reason."""
    return await intake.receive_pixel(site_id, collect_request_from_scope(request.scope, request.headers), u)


@router.head("/v1/collect/{siteId}/pixel.gif", include_in_schema=False)
async def describe_pixel(site_id: SiteId) -> Response:
    """Returns the image and counts nothing, because HEAD is not a view."""
    return Response(PIXEL_GIF, headers=NO_STORE_HEADERS, media_type="image/gif")


@router.get(
    "/beacon.js",
    response_class=Response,
    responses={
        200: {"description": "The script.", "content": {"text/javascript": TEXT_SCHEMA}},
        304: {"description": "The script has not changed."},
    },
    operation_id="beacon",
)
async def beacon(if_none_match: Annotated[str, Header()] = "") -> Response:
    """Returns the script that counts the views of the page that loads it."""
    script, etag = _load_script()
    headers = {
        "ETag": etag,
        "Cache-Control": "public, max-age=86400",
        "Access-Control-Allow-Origin": "*",
        **CROSS_ORIGIN_HEADERS,
    }
    if etag_matches(etag, if_none_match):
        return Response(status_code=304, headers=headers)
    return Response(script, headers={**headers, "X-Content-Type-Options": "nosniff"}, media_type="text/javascript")


@lru_cache
def _load_script() -> tuple[bytes, str]:
    script = BEACON_SCRIPT.read_bytes()
    return script, f'"{sha256(script).hexdigest()[:16]}"'
