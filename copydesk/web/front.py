"""What every request passes first: an id, a bound on its body, and the key that opens the project."""

import logging
import re
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copydesk.core.errors import KeyMissing, KeyRejected, Refusal, StoreDown, TooLarge
from copydesk.core.ids import random_text
from copydesk.core.projects import Project
from copydesk.desk import Desk
from copydesk.web.quick import Quick
from copydesk.web.threads import call

log = logging.getLogger(__name__)

LARGEST_BODY = 1024 * 1024
LARGEST_WEBHOOK = 5 * 1024 * 1024
MOST_DRAINED = 64 * LARGEST_BODY
SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
CLOSED_AREAS = re.compile(r"/v[0-9]+/")
IN_A_PROJECT = re.compile(r"/v[0-9]+/[a-z]+/([^/]+)(/.*)?")


class InternalError(Refusal):
    """Something went wrong here; the log has the details under this request's id."""

    status, code = 500, "internal_error"


class Front:
    """Sits before routing, so that no route can forget it: everything under /v1 and /v2 needs a project's key."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self.app = app
        self.desk = desk
        self.quick = Quick(desk)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get("x-request-id"))
        scope.setdefault("state", {})["request_id"] = request_id
        answered = False

        async def send_with_id(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            project = await self._open(scope, headers)
            largest = LARGEST_WEBHOOK if scope["path"].startswith("/webhooks/") else LARGEST_BODY
            body, receive = await _bounded(headers, receive, largest)
            quick = await self.quick.answer(project, scope, headers, body) if project else None
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

    async def _open(self, scope: Scope, headers: Headers) -> Project | None:
        """The project, which is put into the request's state too, or a refusal; None outside the closed areas."""
        if not CLOSED_AREAS.match(scope["path"]):
            return None
        secret = _bearer(headers.get("authorization"))
        found = IN_A_PROJECT.fullmatch(scope["path"])
        scope_needed = "read" if scope["method"] in ("GET", "HEAD", "OPTIONS") else "write"
        address = caller_address(scope, headers, self.desk.settings.trusted_proxies)

        project_id = found[1] if found else ""
        if self.desk.database.is_sqlite:  # SQLite's readers never wait, so this costs less than going to a thread
            key, project = self.desk.keys.open(secret, project_id, scope_needed, address)
        else:
            key, project = await call(self.desk.keys.open, secret, project_id, scope_needed, address)
        if key.use_is_due:
            with suppress(StoreDown):  # not worth refusing a request
                await call(self.desk.keys.note_use, key)
        scope["state"]["project"] = project
        return project


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
    return sent if sent and SANE_REQUEST_ID.fullmatch(sent) else f"req_{random_text(20)}"


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
