"""The web application: routes, error handling and the OpenAPI description."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from copydesk import __version__
from copydesk.core.errors import InvalidRequest, NotFound, RequestError, WrongMediaType
from copydesk.desk import Desk
from copydesk.mcp.http import endpoint as mcp_endpoint
from copydesk.web import dashboard, public_review
from copydesk.web.api import analytics, context_repositories, jobs, jobs_v1, prompt_templates, reference
from copydesk.web.api.automations import routes as automations
from copydesk.web.api.reports import assistant, feedback, history, referrers, searches, sections
from copydesk.web.api.reports.page_detail import route as page_detail
from copydesk.web.api.reports.page_problems import missing, stale
from copydesk.web.api.streams.job_streams import StreamRegistry
from copydesk.web.api.webhooks import endpoints as webhook_endpoints
from copydesk.web.api.webhooks import incoming as incoming_webhooks
from copydesk.web.collection import routes as collection_routes
from copydesk.web.collection.body_schemas import BODY_SCHEMAS
from copydesk.web.dashboard.auth.access import SignInRequired, find_signed_in
from copydesk.web.middleware.request_gate import RequestGate
from copydesk.web.operations import health
from copydesk.web.responses import static_files
from copydesk.web.responses.error_pages import error_page, error_response, wants_page
from copydesk.web.responses.redirects import redirect_to_sign_in
from copydesk.web.responses.validation_errors import to_invalid_request
from copydesk.web.sharing import badge_routes, link_api, public_pages, unsubscribe
from copydesk.web.sharing.badge_routes import NumberCache
from copydesk.web.sharing.share_access import ShareLimiter


class MethodNotAllowed(RequestError):
    status, code = 405, "method_not_allowed"
    message = "This address does not support that method."


def create_app(desk: Desk) -> FastAPI:
    app = FastAPI(
        title="Copydesk",
        version=__version__,
        summary="Turns prompts into pull requests and measures who reads your docs.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk = desk
    app.state.exports = analytics.create_export_limiter(desk)
    app.state.badge_numbers = NumberCache()
    app.state.share_limiter = ShareLimiter(desk.settings)
    app.state.health = health.Health(desk)
    app.state.streams = StreamRegistry(desk)
    app.state.background_tasks = set()
    for module in (
        jobs,
        jobs_v1,
        context_repositories,
        automations,
        prompt_templates,
        analytics,
        feedback,
        searches,
        missing,
        stale,
        referrers,
        sections,
        page_detail,
        history,
        assistant,
        collection_routes,
        health,
        reference,
        public_review,
        incoming_webhooks,
        webhook_endpoints,
        mcp_endpoint,
        link_api,
        public_pages,
        badge_routes,
        unsubscribe,
        static_files,
        dashboard,
    ):
        app.router.routes += module.router.routes  # include_router would rebuild the routes at the first request
    app.add_exception_handler(RequestError, _handle_request_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_middleware(RequestGate, desk=desk, readiness=app.state.health.readiness)
    app.openapi = lambda: _build_openapi(app)  # type: ignore[method-assign]
    return app


async def _render_error(request: Request, error: RequestError) -> Response:
    if not wants_page(request.scope["path"], request.headers.get("accept", "")):
        return error_response(error, request.state.request_id)
    if isinstance(error, SignInRequired):
        return redirect_to_sign_in(request)
    signed_in = None
    if error.status < 500:  # with a broken database, looking for the session would fail too
        signed_in = await find_signed_in(request, request.app.state.desk)
    return error_page(error, request.state.request_id, signed_in)


async def _handle_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return await _render_error(request, error)


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    in_body = all(fault["loc"][0] == "body" for fault in error.errors())
    if in_body and media_type != "application/json" and not media_type.endswith("+json"):
        return await _render_error(request, WrongMediaType())
    return await _render_error(request, to_invalid_request(error.errors()))


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return await _render_error(request, NotFound())
    if error.status_code == 405:
        methods = _list_methods(request) or headers.get("Allow", "")
        return await _render_error(request, MethodNotAllowed(headers={**headers, "Allow": methods}))
    return await _render_error(request, InvalidRequest("The request body cannot be read."))


def _list_methods(request: Request) -> str:
    """Returns the methods of all routes with the path of the first match; empty for a page of the dashboard.

    Starlette names only those of the first route.
    """
    routes = [route for route in request.app.router.routes if isinstance(route, Route)]
    path = next((route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE), None)
    methods = {method for route in routes if route.path == path for method in route.methods or ()}
    return ", ".join(sorted(methods - {"HEAD"}))


def _build_openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes, tags=app.openapi_tags
        )
        for operation in (method for path in schema["paths"].values() for method in path.values()):
            operation.get("responses", {}).pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(unused, None)
        schema["components"]["schemas"] = {**BODY_SCHEMAS, **schema["components"]["schemas"]}
        app.openapi_schema = schema
    return app.openapi_schema
