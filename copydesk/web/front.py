"""What every request passes first: an id, a bound on its body, and the key that opens the project."""

import logging
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from ipaddress import ip_address, ip_network
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copydesk.core import logs, traces
from copydesk.core.errors import KeyMissing, KeyRejected, Refusal, StoreDown, TooLarge
from copydesk.core.ids import BASE62
from copydesk.desk import Desk
from copydesk.web.arrivals import Arrivals
from copydesk.web.noting import TRACED, kind_of, note
from copydesk.web.opening import Openings
from copydesk.web.quick import Quick
from copydesk.web.readiness import Readiness
from copydesk.web.threads import call

log = logging.getLogger(__name__)

LARGEST_BODY = 1024 * 1024
LARGEST_WEBHOOK = LARGEST_EVENTS = 5 * 1024 * 1024
LARGEST_BEACON = 64 * 1024  # as much as a browser lets a page send when it is left
MOST_DRAINED = 64 * LARGEST_BODY
SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
CLOSED_AREAS = re.compile(r"/v[0-9]+/")
COLLECTOR = re.compile(r"/v1/collect/[^/]+(?:/pixel\.gif)?")
IN_A_PROJECT = re.compile(r"/v[0-9]+/[a-z]+/([^/]+)(/.*)?")


class InternalError(Refusal):
    """Something went wrong here; the log has the details under this request's id."""

    status, code = 500, "internal_error"


class Front:
    """Sits before routing, so that no route can forget it: everything under /v1 and /v2 needs a project's key.

    The one exception is the collector, which browsers call: nobody can keep a secret in a public page."""

    def __init__(self, app: ASGIApp, desk: Desk, readiness: Readiness) -> None:
        self.app = app
        self.desk, self.readiness = desk, readiness
        self.openings = Openings(desk)
        self.arrivals = Arrivals(desk)
        self.quick = Quick(desk, self.arrivals)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, kind = perf_counter(), kind_of(scope["method"], scope["path"])
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
            body, receive = await _bounded(headers, receive, _largest(scope["path"]))
            is_traced = traces.is_on() and kind in TRACED and scope["method"] != "GET"
            with self._traced(kind, scope, headers) if is_traced else nullcontext():
                quick = await self.quick.answer(scope, headers, body)
                await (quick or self.app)(scope, receive, send_with_id)
        except ClientDisconnect:
            return
        except Refusal as refusal:
            await refused(refusal, request_id)(scope, receive, send_with_id)
        except Exception:
            log.exception("request %s failed", request_id)
            if answered:
                raise
            await refused(InternalError(), request_id)(scope, receive, send_with_id)

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
        state["address"] = address = caller_address(scope, headers, self.desk.settings.trusted_proxies)
        state["project"] = None
        if not CLOSED_AREAS.match(path) or COLLECTOR.fullmatch(path):
            return
        secret = _bearer(headers.get("authorization"))
        found = IN_A_PROJECT.fullmatch(path)
        scope_needed = "read" if scope["method"] in ("GET", "HEAD", "OPTIONS") else "write"
        key, project = await self.openings.open(secret, found[1] if found else "", scope_needed, address)
        if key.use_is_due:
            with suppress(StoreDown):  # not worth refusing a request
                await call(self.desk.keys.note_use, key)
        state["project"] = project


def _largest(path: str) -> int:
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


def caller_address(scope: Scope, headers: Headers, trusted: tuple[str, ...]) -> str | None:
    """The peer's address; behind trusted proxies the nearest one that is not theirs."""
    address = scope["client"][0] if scope.get("client") else None
    forwarded = ",".join(headers.getlist("x-forwarded-for"))
    chain = [part.strip() for part in forwarded.split(",") if part.strip()]
    while address is not None and chain and _is_in(address, trusted):
        address = chain.pop()
    return address


def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    try:
        return any(ip_address(address) in ip_network(network, strict=False) for network in networks)
    except ValueError:
        return False


def _bearer(header: str | None) -> str:
    if not header:
        raise KeyMissing
    scheme, _, secret = header.partition(" ")
    if scheme.casefold() != "bearer":
        raise KeyRejected("Send the API key as 'Authorization: Bearer desk_…'; other schemes are not known here.")
    return secret.strip()


def _request_id(sent: str | None) -> str:
    """One of ours tells requests apart and keeps no secret, so it is worth no call to the system."""
    if sent and SANE_REQUEST_ID.fullmatch(sent):
        return sent
    return f"req_{''.join(random.choices(BASE62, k=20))}"  # noqa: S311


async def _bounded(headers: Headers, receive: Receive, largest: int) -> tuple[bytes, Receive]:
    """The whole body, read before anything parses it; TooLarge as soon as it is."""
    body, size, more = bytearray(), 0, True
    declared = headers.get("content-length", "")
    if not declared and "chunked" not in headers.get("transfer-encoding", ""):
        return b"", receive
    waits_for_leave = "100-continue" in headers.get("expect", "").lower()
    if declared.isdigit() and int(declared) > (largest if waits_for_leave else MOST_DRAINED):
        raise TooLarge(f"The request body is larger than {largest // 1024} KiB.")
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
        if size <= largest:
            body += message.get("body", b"")
        elif size > MOST_DRAINED:
            break
    if size > largest:
        # What was sent is read and dropped, so that the client is there to hear the answer.
        raise TooLarge(f"The request body is larger than {largest // 1024} KiB.")
    whole, sent = bytes(body), False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": whole, "more_body": False}

    return whole, replay
