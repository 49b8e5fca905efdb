"""What every request passes first: an id, bounds on its body, and the key that opens the project."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copydesk.core.errors import KeyMissing, KeyRejected, Refusal, StoreDown
from copydesk.core.ids import new_request_id
from copydesk.core.runtime.thread_pool import call
from copydesk.core.telemetry import logs, traces
from copydesk.desk import Desk
from copydesk.web.api import webhooks
from copydesk.web.collection.intake import Arrivals
from copydesk.web.http.client_address import Callers
from copydesk.web.http.request_body import BodyMemory, BodyReader, replay
from copydesk.web.middleware.fast_path import Quick
from copydesk.web.middleware.key_cache import Openings, scope_needed
from copydesk.web.middleware.request_metrics import TRACED, kind_of, note
from copydesk.web.middleware.request_pacer import Turnstile
from copydesk.web.operations.readiness import Readiness

log = logging.getLogger(__name__)

LARGEST_BODY = 1024 * 1024
LARGEST_WEBHOOK = LARGEST_EVENTS = 5 * 1024 * 1024
LARGEST_BEACON = 64 * 1024  # as much as a browser lets a page send when it is left
SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
CLOSED_AREAS = re.compile(r"/v[0-9]+/")
COLLECTOR = re.compile(r"/v1/collect/[^/]+(?:/pixel\.gif)?")
OUTSIDE_FORM = re.compile(r"/sign-in(?:/.*)?|/join/[^/]*")
WEBHOOK = re.compile(r"/webhooks/([^/]+)")
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
IN_A_PROJECT = re.compile(r"/v[0-9]+/[a-z]+/([^/]+)(/.*)?")


class InternalError(Refusal):
    status, code = 500, "internal_error"
    message = "Something went wrong on the server; its log has the details under this request's ID."


class Front:
    """Sits before routing, so that no route can forget it: everything under /v1 and /v2 needs a project's key.

    The one exception is the collector, which browsers call: nobody can keep a secret in a public page."""

    def __init__(self, app: ASGIApp, desk: Desk, readiness: Readiness) -> None:
        self.app = app
        self.desk, self.readiness = desk, readiness
        self.openings = Openings(desk)
        self.arrivals = Arrivals(desk)
        self.quick = Quick(desk, self.arrivals)
        self.turnstile = Turnstile()
        self.callers = Callers(desk.settings.trusted_proxies)
        self.reader = BodyReader(BodyMemory(desk.settings.body_memory_megabytes << 20), desk.settings.body_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, kind = perf_counter(), kind_of(scope["method"], scope["path"])
        if scope["path"] != "/healthz":
            await self.turnstile.enter()
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get("x-request-id"))
        logs.set_about(requestId=request_id)
        scope.setdefault("state", {}).update(request_id=request_id, arrivals=self.arrivals)
        answered = False

        async def send_with_id(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                note(kind, message["status"], perf_counter() - began, is_logged=self.desk.settings.log_requests)
                given = MutableHeaders(scope=message)
                given["X-Request-Id"] = request_id
                if self.readiness.is_draining:  # the next request is to find another server
                    given["Connection"] = "close"
            await send(message)

        try:
            await self._open(scope, headers)
            has_key, max_bytes = scope["state"]["project"] is not None, max_body_bytes(scope["method"], scope["path"])
            body = await self.reader.read(headers, receive, max_bytes, has_key)
            try:
                await self._answer(kind, scope, headers, body, receive, send_with_id)
            finally:
                self.reader.memory.release(len(body), has_key)
        except ClientDisconnect:
            return
        except Refusal as refusal:
            await refused(refusal, request_id)(scope, receive, send_with_id)
        except Exception:
            log.exception("request %s failed", request_id)
            if answered:
                raise
            await refused(InternalError(), request_id)(scope, receive, send_with_id)

    async def _answer(
        self, kind: str, scope: Scope, headers: Headers, body: bytes, receive: Receive, send: Send
    ) -> None:
        sent = b"" if scope["method"] in BODILESS else body
        receive = replay({"type": "http.request", "body": sent, "more_body": False}, receive)
        is_traced = traces.is_on() and kind in TRACED and scope["method"] != "GET"
        with self._traced(kind, scope, headers) if is_traced else nullcontext():
            quick = await self.quick.answer(scope, headers, sent)
            await (quick or self.app)(scope, receive, send)

    @contextmanager
    def _traced(self, kind: str, scope: Scope, headers: Headers) -> Iterator[None]:
        """Only who has a key may say which trace this belongs to."""
        parent = headers.get("traceparent") if scope["state"]["project"] else None
        with traces.span(f"{scope['method']} {kind}", parent=parent, serves=True) as span:
            logs.set_about(traceId=span.trace_id)
            yield

    async def _open(self, scope: Scope, headers: Headers) -> None:
        """Puts the caller's address and, in the closed areas, the project into the request's state; or refuses."""
        path, state = scope["path"], scope["state"]
        state["address"] = address = self.callers.find_address(scope, headers)
        state["project"] = None
        if scope["method"] == "POST" and (webhook := WEBHOOK.fullmatch(path)):
            await call(webhooks.check_project, self.desk, webhook[1], headers)
        if not CLOSED_AREAS.match(path) or COLLECTOR.fullmatch(path):
            return
        secret = _bearer(headers.get("authorization"))
        found = IN_A_PROJECT.fullmatch(path)
        needed = scope_needed(scope["method"], path)
        key, project = await self.openings.open(secret, found[1] if found else "", needed, address)
        if key.use_is_due:
            with suppress(StoreDown):  # not worth refusing a request
                await call(self.desk.keys.note_use, key)
        state["project"], state["key"] = project, key


def max_body_bytes(method: str, path: str) -> int:
    """Returns how large a body may be: a form of somebody who is not signed in is small, and so is what GET ignores."""
    if method in BODILESS or OUTSIDE_FORM.fullmatch(path):
        return LARGEST_BEACON
    if path.startswith("/webhooks/"):
        return LARGEST_WEBHOOK
    if path.startswith("/v1/analytics/") and path.endswith("/events"):
        return LARGEST_EVENTS
    return LARGEST_BEACON if path.startswith("/v1/collect/") else LARGEST_BODY


def refused(refusal: Refusal, request_id: str) -> Response:
    body: dict[str, Any] = {"error": refusal.message, "code": refusal.code}
    if refusal.details:
        body["details"] = [{"field": detail.field, "message": detail.message} for detail in refusal.details]
    body["requestId"] = request_id
    return JSONResponse(body, status_code=refusal.status, headers=refusal.headers)


def _bearer(header: str | None) -> str:
    if not header:
        raise KeyMissing
    scheme, _, secret = header.partition(" ")
    if scheme.casefold() != "bearer":
        raise KeyRejected("Send the API key as 'Authorization: Bearer desk_…'; other schemes are not known here.")
    return secret.strip()


def _request_id(sent: str | None) -> str:
    return sent if sent and SANE_REQUEST_ID.fullmatch(sent) else new_request_id()
