"""Where views arrive: as a project's events, from a browser's beacon, by a pixel. Answered once they are durable."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from copydesk.analytics.classification.classifier import LONGEST_AGENT
from copydesk.analytics.ingest.collector import CollectorBusy, views_of
from copydesk.analytics.ingest.pipeline import accept
from copydesk.analytics.ingest.raw_view import Raw, Site
from copydesk.analytics.ingest.visitor_ids import NETWORK_OF_ONE_HOME
from copydesk.analytics.ip_addresses import packed
from copydesk.analytics.page_paths import clean
from copydesk.analytics.page_view import Dropped, Reason, View
from copydesk.analytics.stores.base import Logged
from copydesk.core import clock
from copydesk.core.ids import is_id
from copydesk.core.projects.projects import Project, SiteNotFound
from copydesk.core.rate_limits.in_memory import Rate, SharedRate
from copydesk.core.rate_limits.limits import Limit
from copydesk.core.runtime.thread_pool import call, run_in
from copydesk.core.telemetry import instruments as measured
from copydesk.desk import Desk
from copydesk.web.collection import cors as origins
from copydesk.web.collection.payloads import FeedbackBeacon, ViewBeacon, beacon_in, events_in

if TYPE_CHECKING:
    from copydesk.analytics.classification.bot_signatures import Directory

MINUTE = 60_000
SMALL = 8 * 1024
"""Bytes that are read at once; what takes longer, or may unpack to more, is read beside the event loop."""
MOST_BODIES = 64
"""Larger ones that may wait to be read."""
PIXEL = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\4\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
NO_STORE = {"Cache-Control": "no-store"}
NOTHING = Logged(0)
ONE_ACCEPTED = b'{"accepted":1,"duplicates":0,"dropped":[]}'

T = TypeVar("T")
Drops = Sequence[tuple[int, Dropped]]


class Caller(NamedTuple):
    """A browser, or whatever else calls the public collector."""

    method: str
    target: str
    """The path and query that it asked for."""
    headers: Headers
    address: str | None


def caller(scope: Scope, headers: Headers) -> Caller:
    query = scope["query_string"].decode("latin-1")
    target = scope["path"] + (f"?{query}" if query else "")
    return Caller(scope["method"], target, headers, scope["state"]["address"])


class Arrivals:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._collector = desk.collector
        per_site = Limit("collect-site", desk.settings.collect_per_minute, MINUTE)
        self._per_site = SharedRate(per_site, desk.database, desk.limit_teller)
        self._per_address = Rate(Limit("collect-address", desk.settings.collect_per_address, MINUTE))
        self._feedback_per_address = Rate(Limit("feedback-address", desk.settings.feedback_per_address, 60 * MINUTE))
        self._bodies = 0
        self._met: set[str] = set()
        self._looking: dict[str, asyncio.Future[Any]] = {}

    async def events(self, project: Project, headers: Headers, body: bytes) -> Response:
        site = await self._looked_up(project.id, lambda: self._desk.sites.of(project))
        if len(body) <= SMALL and "content-encoding" not in headers:
            views, dropped = _read(headers, body, site)
        else:
            views, dropped = await self._read_beside(headers, body, site)
        logged = await self._collector.keep(views)
        _count(logged, dropped)
        return _answer(logged.accepted, len(logged.duplicates), dropped)

    async def beacon(self, site_id: str, caller: Caller, body: bytes) -> Response:
        project, site = await self._admitted(site_id, caller)
        allowed = origins.allowed(project.collecting.origins, caller.headers.get("origin"))
        sent = beacon_in(caller.headers, body)
        if isinstance(sent, FeedbackBeacon):
            self._feedback_per_address.take(_network(caller))
            return await self._feedback(project, site, sent, allowed)
        view = await self._view(project, site, caller, sent)
        if isinstance(view, Dropped):
            _count(NOTHING, [(0, view)])
            return _answer(0, 0, [(0, view)], allowed)
        logged = await self._collector.keep([view])
        _count(logged)
        return _answer(logged.accepted, len(logged.duplicates), (), allowed)

    async def pixel(self, site_id: str, caller: Caller, page: str | None) -> Response:
        """The page gets its image whatever becomes of the view; why it was dropped is for whoever looks."""
        project, site = await self._admitted(site_id, caller)
        referring = caller.headers.get("referer", "")
        origins.allowed(project.collecting.origins, origins.of(referring or page or ""))
        view = await self._view(project, site, caller, ViewBeacon.model_construct(u=page or referring))
        headers = {**NO_STORE, **origins.EMBEDDED}
        if isinstance(view, Dropped):
            headers["X-Dropped"] = view.reason
            _count(NOTHING, [(0, view)])
        else:
            _count(await self._collector.keep([view]))
        return Response(PIXEL, headers=headers, media_type="image/gif")

    async def preflight(self, site_id: str, caller: Caller) -> Response:
        project, _ = await self._admitted(site_id, caller)
        allowed = origins.allowed(project.collecting.origins, caller.headers.get("origin"))
        return Response(status_code=204, headers={**allowed, **origins.PREFLIGHT})

    async def _admitted(self, site_id: str, caller: Caller) -> tuple[Project, Site]:
        self._per_address.take(_network(caller))
        if not is_id(site_id, "site"):
            raise SiteNotFound
        found = await self._looked_up(site_id, lambda: self._desk.sites.named(site_id))
        self._per_site.take(site_id)
        return found

    async def _looked_up(self, name: str, look: Callable[[], T]) -> T:
        """A first look may have tables to read and a key to make: it is done in a thread, and shared."""
        if name in self._met:
            return look() if self._desk.database.is_sqlite else await call(look)
        looking = self._looking.get(name)
        if looking is None:
            looking = self._looking[name] = asyncio.ensure_future(call(look))
            looking.add_done_callback(lambda _: self._looking.pop(name))
        found: T = await asyncio.shield(looking)
        self._met.add(name)
        return found

    async def _read_beside(self, headers: Headers, body: bytes, site: Site) -> tuple[list[View], Drops]:
        """One body after the other: more threads would only queue for the interpreter."""
        if self._bodies >= MOST_BODIES:
            raise CollectorBusy
        self._bodies += 1
        try:
            return await run_in("read", _read, headers, body, site)
        finally:
            self._bodies -= 1

    async def _view(self, project: Project, site: Site, caller: Caller, sent: ViewBeacon) -> View | Dropped:
        """Who is there is what the request itself shows. Its Accept is not read: it asks for our answer, not a page."""
        headers = caller.headers
        if project.collecting.do_not_track and (headers.get("dnt") == "1" or headers.get("sec-gpc") == "1"):
            return Dropped(Reason.DO_NOT_TRACK)
        raw = Raw(
            site,
            sent.u,
            clock.now(),
            user_agent=headers.get("user-agent", "")[:LONGEST_AGENT],
            address=packed(caller.address) if caller.address else None,
            referrer=sent.r,
            purpose=headers.get("sec-purpose") or headers.get("purpose") or headers.get("x-moz"),
            signer=await self._signer(caller) if "signature-input" in headers else None,
            visitor_id=None if sent.v in (None, "") else str(sent.v),
            event_id=sent.e,
        )
        return accept(raw)

    async def _signer(self, caller: Caller) -> str | None:
        url = self._desk.settings.base_url + caller.target
        return await call(self._directory.signer, caller.method, url, dict(caller.headers))

    @cached_property
    def _directory(self) -> "Directory":
        from copydesk.analytics.classification.agent_table import table
        from copydesk.analytics.classification.bot_signatures import Directory

        return Directory(table().signers)

    async def _feedback(
        self, project: Project, site: Site, sent: FeedbackBeacon, allowed: Mapping[str, str]
    ) -> Response:
        place = clean(sent.u, site.base, site.keep)
        if isinstance(place, Dropped):
            return _answer(0, 0, [(0, place)], allowed)
        await call(self._desk.feedback.add, project.id, place.path, sent.h, sent.c or "", clock.now())
        self._desk.keeper.arrived()  # which deletes feedback that is too old
        return _answer(1, 0, (), allowed)


def _network(caller: Caller) -> bytes:
    """Returns what one sender has at once: an IPv4 address, or a whole network of IPv6."""
    address = packed(caller.address or "") or b""
    return address if len(address) == 4 else address[:NETWORK_OF_ONE_HOME]


def _read(headers: Headers, body: bytes, site: Site) -> tuple[list[View], Drops]:
    return views_of(events_in(headers, body), site, clock.now())


def _count(logged: Logged, dropped: Drops = ()) -> None:
    if logged.accepted:
        measured.views.add("accepted", by=logged.accepted)
    if logged.duplicates:
        measured.views.add("duplicate", by=len(logged.duplicates))
    for _, drop in dropped:
        measured.views.add(drop.reason)


def _answer(accepted: int, duplicates: int, dropped: Drops, headers: Mapping[str, str] | None = None) -> Response:
    body = ONE_ACCEPTED
    if dropped or (accepted, duplicates) != (1, 0):
        listed = [_drop(number, drop) for number, drop in dropped]
        told = {"accepted": accepted, "duplicates": duplicates, "dropped": listed}
        body = json.dumps(told, separators=(",", ":")).encode()
    return Response(body, 202, {**NO_STORE, **(headers or {})}, "application/json")


def _drop(number: int, drop: Dropped) -> dict[str, object]:
    named = {"field": drop.field} if drop.field else {}
    return {"index": number, "reason": drop.reason, **named, "message": drop.message}
