"""The fast path for views, the most frequent requests: events and beacons of the usual media types bypass FastAPI.

A view with another media type goes to the FastAPI routes. They make the same calls, and their OpenAPI description
covers both paths.
"""

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from copydesk.web.collection.intake import ViewIntake, collect_request_from_scope
from copydesk.web.route_patterns import BEACON_PATH, SEND_EVENTS_PATH

EVENT_MEDIA_TYPES = frozenset({"application/json", "application/x-ndjson"})
BEACON_MEDIA_TYPES = frozenset({"text/plain;charset=UTF-8", "application/json"})


async def try_receive_views(intake: ViewIntake, scope: Scope, headers: Headers, body: bytes) -> Response | None:
    """Returns the response, or None when FastAPI must handle the request. Raises the same errors as the routes."""
    if scope["method"] != "POST":
        return None
    project = scope["state"]["project"]
    content_type = headers.get("content-type", "")
    if project and content_type in EVENT_MEDIA_TYPES and SEND_EVENTS_PATH.fullmatch(scope["path"]):
        return await intake.receive_events(project, headers, body)
    if content_type in BEACON_MEDIA_TYPES and (beacon := BEACON_PATH.fullmatch(scope["path"])):
        return await intake.receive_beacon(beacon["siteId"], collect_request_from_scope(scope, headers), body)
    return None
