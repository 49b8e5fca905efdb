"""The application: routes, error handling, the API's own description."""

import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from copydesk import __version__
from copydesk.core.errors import InvalidRequest, NotFound, Refusal, WrongMediaType
from copydesk.desk import Desk
from copydesk.web import dashboard as dash
from copydesk.web import public_review as review
from copydesk.web.api import analytics, jobs, reference, webhooks
from copydesk.web.api.job_streams import Streams
from copydesk.web.collection import routes as collect
from copydesk.web.dashboard.auth.session import SignInFirst, to_sign_in
from copydesk.web.middleware.request_gate import Front, refused
from copydesk.web.operations import health
from copydesk.web.responses import static_files as assets
from copydesk.web.responses.html import page
from copydesk.web.responses.validation_errors import explained

FOR_PEOPLE = re.compile(r"/(?:$|projects|people|system|account|sign-|join/|review/)")
"""Where people look: what is refused there is said on a page, to those who ask for one."""


class MethodNotAllowed(Refusal):
    status, code = 405, "method_not_allowed"
    message = "This address does not support that method."


def make_app(desk: Desk) -> FastAPI:
    app = FastAPI(
        title="Copydesk",
        version=__version__,
        summary="A prompt becomes a pull request.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk = desk
    app.state.exports = analytics.exports_rate(desk)
    app.state.health = health.Health(desk)
    app.state.streams = Streams(desk)
    for module in (jobs, analytics, collect, health, reference, review, webhooks, assets, dash):
        app.router.routes += module.router.routes  # as they are: include_router has the first request make them anew
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Front, desk=desk, readiness=app.state.health.readiness)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _answer(request: Request, refusal: Refusal) -> Response:
    if not FOR_PEOPLE.match(request.scope["path"]) or "text/html" not in request.headers.get("accept", ""):
        return refused(refusal, request.state.request_id)
    if isinstance(refusal, SignInFirst):
        return to_sign_in(request)
    return page(
        "refused.html",
        refusal.status,
        refusal.headers,
        title=HTTPStatus(refusal.status).phrase,
        message=refusal.message,
        request_id=request.state.request_id,
    )


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _answer(request, error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    in_body = all(fault["loc"][0] == "body" for fault in error.errors())
    if in_body and kind != "application/json" and not kind.endswith("+json"):
        return _answer(request, WrongMediaType())
    return _answer(request, explained(error.errors()))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return _answer(request, NotFound())
    if error.status_code == 405:
        return _answer(request, MethodNotAllowed(headers=headers))
    return _answer(request, InvalidRequest("The request's body cannot be read."))


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes, tags=app.openapi_tags
        )
        for operation in (method for path in schema["paths"].values() for method in path.values()):
            operation.get("responses", {}).pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(unused, None)
        app.openapi_schema = schema
    return app.openapi_schema
