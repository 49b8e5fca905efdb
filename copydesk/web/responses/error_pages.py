"""Error responses: JSON for programs, and a page with links for a browser that opens a page."""

from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from copydesk.core.errors import RequestError
from copydesk.web.responses.html import render_page
from copydesk.web.route_patterns import PAGE_PREFIX

PAGE_MESSAGES = {405: "This page can’t be opened directly. Go back to the page before."}
"""Messages that replace those for programs."""


def wants_page(path: str, accept: str) -> bool:
    """Returns whether a browser opens a page. Programs that accept anything (`*/*`) get JSON."""
    return PAGE_PREFIX.match(path) is not None and "text/html" in accept


def error_response(error: RequestError, request_id: str) -> Response:
    body: dict[str, Any] = {"error": error.message, "code": error.code}
    if error.details:
        body["details"] = [{"field": detail.field, "message": detail.message} for detail in error.details]
    body["requestId"] = request_id
    return JSONResponse(body, status_code=error.status, headers=error.headers)


def error_page(error: RequestError, request_id: str, signed_in: Any = None) -> Response:
    """Returns a page with the navigation of the person who is signed in, if it is known who that is."""
    return render_page(
        "refused.html",
        error.status,
        error.headers,
        signed_in=signed_in,
        title=HTTPStatus(error.status).phrase,
        message=PAGE_MESSAGES.get(error.status, error.message),
        request_id=request_id,
    )
