"""Accepts what generated clients send: HEAD, empty parameters, and JSON without a Content-Type."""

from starlette.routing import Match
from starlette.types import Message, Scope, Send

from copydesk.web import route_patterns as paths

METHODS_WITH_JSON = frozenset({"POST", "PUT", "PATCH"})
JSON_CONTENT_TYPE = (b"content-type", b"application/json")


def normalize_request(scope: Scope) -> Scope:
    """Returns the request as the routes expect it. HEAD becomes GET; the server drops the body of the response."""
    changes: dict[str, object] = {}
    if scope["method"] == "HEAD" and not paths.COLLECTOR_PATH.fullmatch(scope["path"]):  # HEAD of a pixel is no view
        changes["method"] = "GET"
    if paths.API_PREFIX.match(scope["path"]):
        if scope["query_string"]:
            changes["query_string"] = remove_empty_params(scope["query_string"])
        if scope["method"] in METHODS_WITH_JSON and not any(name == b"content-type" for name, _ in scope["headers"]):
            changes["headers"] = [*scope["headers"], JSON_CONTENT_TYPE]
    return {**scope, **changes} if changes else scope


def remove_empty_params(query: bytes) -> bytes:
    """Removes parameters without a value: they mean the same as absent ones."""
    return b"&".join(param for param in query.split(b"&") if param.partition(b"=")[2])


def end_after_headers(send: Send) -> Send:
    """Returns a `send` that ends the response after its headers, so that HEAD of a live stream does not stay open."""
    is_over = False

    async def send_without_body(message: Message) -> None:
        nonlocal is_over
        if message["type"] == "http.response.body":
            if is_over:
                return
            is_over = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return send_without_body


def has_route(scope: Scope) -> bool:
    """Returns whether the application has a route at this path, with any method."""
    return any(route.matches(scope)[0] is not Match.NONE for route in scope["app"].routes)
