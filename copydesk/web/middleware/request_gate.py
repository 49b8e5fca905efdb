"""Middleware for every request: assigns a request ID, limits the body, and authenticates the API key."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copydesk.core.errors import (
    KeyMissing,
    KeyRejected,
    NotFound,
    ProjectNotFound,
    RequestError,
    StoreUnavailable,
)
from copydesk.core.ids import new_request_id
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.telemetry import logs, traces
from copydesk.desk import Desk
from copydesk.web import route_patterns as paths
from copydesk.web.api.webhooks import incoming as webhooks
from copydesk.web.collection.intake import ViewIntake
from copydesk.web.http.client_address import ClientAddressFinder
from copydesk.web.http.request_body import BodyMemory, BodyReader, replay
from copydesk.web.middleware.fast_path import try_receive_views
from copydesk.web.middleware.key_cache import ApiKeyCache, required_scope
from copydesk.web.middleware.lenient_requests import end_after_headers, has_route, normalize_request
from copydesk.web.middleware.request_metrics import TRACED_KINDS, classify_request, record_request
from copydesk.web.operations.readiness import Readiness
from copydesk.web.responses.error_pages import error_page, error_response, wants_page

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1024 * 1024
MAX_WEBHOOK_BYTES = MAX_EVENTS_BYTES = 5 * 1024 * 1024
MAX_BEACON_BYTES = 64 * 1024  # the most that browsers let a page send while it unloads
REQUEST_ID_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,128}")
METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class InternalError(RequestError):
    status, code = 500, "internal_error"
    message = "Something went wrong on the server. Its log contains the details under this request ID."


class RequestGate:
    """Requires a project's API key under /v1 and /v2 and for /mcp. Runs before routing, so that no route can forget it.

    The only exception is the collector, which browsers call: a public page cannot keep a key secret.
    """

    def __init__(self, app: ASGIApp, desk: Desk, readiness: Readiness) -> None:
        self.app = app
        self.desk = desk
        self.readiness = readiness
        self.key_cache = ApiKeyCache(desk)
        self.intake = ViewIntake(desk)
        self.client_addresses = ClientAddressFinder(desk.settings.trusted_proxies)
        self.body_reader = BodyReader(BodyMemory(desk.settings.body_memory_megabytes << 20), desk.settings.body_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = perf_counter()
        if scope["method"] == "HEAD":
            send = end_after_headers(send)
        scope = normalize_request(scope)
        kind = classify_request(scope["method"], scope["path"])
        headers = Headers(scope=scope)
        request_id = _choose_request_id(headers.get("x-request-id"))
        logs.bind_log_context(requestId=request_id)
        scope.setdefault("state", {}).update(request_id=request_id, arrivals=self.intake)
        is_answered = False

        async def send_with_id(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                record_request(
                    kind, message["status"], perf_counter() - began, should_log=self.desk.settings.log_requests
                )
                response_headers = MutableHeaders(scope=message)
                response_headers["X-Request-Id"] = request_id
                if self.readiness.is_draining:  # so that the client's next request reaches another server
                    response_headers["Connection"] = "close"
            await send(message)

        try:
            await self._authenticate(scope, headers)
            has_key = scope["state"]["project"] is not None
            max_bytes = max_body_bytes(scope["method"], scope["path"])
            body = await self.body_reader.read(headers, receive, max_bytes, has_key)
            try:
                await self._respond(kind, scope, headers, body, receive, send_with_id)
            finally:
                self.body_reader.memory.release(len(body), has_key)
        except ClientDisconnect:
            return
        except RequestError as error:
            await _describe_error(error, scope, headers, request_id)(scope, receive, send_with_id)
        except Exception:
            log.exception("request %s failed", request_id)
            if is_answered:
                raise
            await _describe_error(InternalError(), scope, headers, request_id)(scope, receive, send_with_id)

    async def _respond(
        self, kind: str, scope: Scope, headers: Headers, body: bytes, receive: Receive, send: Send
    ) -> None:
        payload = b"" if scope["method"] in METHODS_WITHOUT_BODY else body
        receive = replay({"type": "http.request", "body": payload, "more_body": False}, receive)
        is_traced = traces.is_enabled() and kind in TRACED_KINDS and scope["method"] != "GET"
        with self._trace_request(kind, scope, headers) if is_traced else nullcontext():
            response = await try_receive_views(self.intake, scope, headers, payload)
            if response is not None:
                await response(scope, receive, send)
            else:
                await self.app(scope, receive, send)

    @contextmanager
    def _trace_request(self, kind: str, scope: Scope, headers: Headers) -> Iterator[None]:
        """Starts a span. Uses the caller's `traceparent` only if the request has an API key."""
        parent = headers.get("traceparent") if scope["state"]["project"] else None
        with traces.start_span(f"{scope['method']} {kind}", parent=parent, is_server=True) as span:
            logs.bind_log_context(traceId=span.trace_id)
            yield

    async def _authenticate(self, scope: Scope, headers: Headers) -> None:
        """Stores the client address and, for API paths, the project and key in the request state.

        Raises a RequestError if access is denied.
        """
        path = scope["path"]
        state = scope["state"]
        state["address"] = address = self.client_addresses.find_address(scope, headers)
        state["project"] = None
        if scope["method"] == "POST" and (webhook := paths.WEBHOOK_PATH.fullmatch(path)):
            await run_in_thread(webhooks.check_project, self.desk, webhook["projectId"], headers)
        is_api = paths.API_PREFIX.match(path) and not paths.COLLECTOR_PATH.fullmatch(path)
        if not is_api and path != paths.MCP_PATH:
            return
        secret = _parse_bearer_token(headers.get("authorization"))
        match = paths.PROJECT_PATH.fullmatch(path)
        key_scope = required_scope(scope["method"], path)
        project_id = None if path == paths.MCP_PATH else match["projectId"] if match else ""
        try:
            key, project = await self.key_cache.authenticate(secret, project_id, key_scope, address)
        except ProjectNotFound:
            if has_route(scope):
                raise
            raise NotFound from None
        if key.should_record_use:
            with suppress(StoreUnavailable):  # the time of last use is not worth failing the request
                await run_in_thread(self.desk.keys.record_use, key)
        state["project"] = project
        state["key"] = key


def max_body_bytes(method: str, path: str) -> int:
    """Returns the size limit of a body. It is small for forms that need no session, and for GET, which ignores it."""
    if method in METHODS_WITHOUT_BODY or paths.SIGN_IN_FORM_PATH.fullmatch(path):
        return MAX_BEACON_BYTES
    if path.startswith(paths.WEBHOOK_PREFIX):
        return MAX_WEBHOOK_BYTES
    if paths.SEND_EVENTS_PATH.fullmatch(path):
        return MAX_EVENTS_BYTES
    return MAX_BEACON_BYTES if path.startswith(paths.COLLECTOR_PREFIX) else MAX_BODY_BYTES


def _describe_error(error: RequestError, scope: Scope, headers: Headers, request_id: str) -> Response:
    """Returns JSON, or a page without the person's navigation: whatever failed may also fail to find the session."""
    if wants_page(scope["path"], headers.get("accept", "")):
        return error_page(error, request_id)
    return error_response(error, request_id)


def _parse_bearer_token(header: str | None) -> str:
    if not header:
        raise KeyMissing
    scheme, _, secret = header.partition(" ")
    if scheme.casefold() != "bearer":
        raise KeyRejected("Send the API key as 'Authorization: Bearer desk_…'. Other schemes are not supported.")
    return secret.strip()


def _choose_request_id(header: str | None) -> str:
    return header if header and REQUEST_ID_PATTERN.fullmatch(header) else new_request_id()
