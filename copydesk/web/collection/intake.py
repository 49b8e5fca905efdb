"""Receives views: events from a project's server, beacons from browsers, and pixels. Responds once they are durable."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from copydesk.analytics.classification.classifier import MAX_AGENT_CHARS
from copydesk.analytics.ingest.collector import CollectorBusy, NumberedEvent, views_from_events
from copydesk.analytics.ingest.interaction_events import (
    AssistantEvent,
    FeedbackEvent,
    NewInteraction,
    SearchEvent,
    find_clicked_path,
    hash_event_id,
    interaction_from_event,
)
from copydesk.analytics.ingest.pipeline import run_pipeline
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig
from copydesk.analytics.ingest.uncounted_requests import RefusalReason
from copydesk.analytics.interactions.conversations import NewQuestion
from copydesk.analytics.interactions.feedback import FeedbackDetails, FeedbackSource, NewFeedback
from copydesk.analytics.interactions.searches import NewSearch
from copydesk.analytics.interactions.storage_quota import QuotaReached
from copydesk.analytics.interactions.text_fields import clean_line
from copydesk.analytics.ip_addresses import parse_ip, to_client_network
from copydesk.analytics.page_paths import normalize_url
from copydesk.analytics.page_view import Dropped, DropReason, PageView
from copydesk.analytics.stores.base import LogResult
from copydesk.core import clock
from copydesk.core.errors import RequestError
from copydesk.core.ids import is_id
from copydesk.core.projects.projects import Project, SiteNotFound
from copydesk.core.rate_limits.in_memory import LocalRateLimiter, SharedRateLimiter
from copydesk.core.rate_limits.limits import RateLimit, TooManyRequests
from copydesk.core.runtime.thread_pool import run_in_pool, run_in_thread
from copydesk.core.telemetry import instruments
from copydesk.desk import Desk
from copydesk.web.collection import cors
from copydesk.web.collection.payloads import (
    FeedbackBeacon,
    MissingBeacon,
    SearchBeacon,
    ViewBeacon,
    parse_beacon,
    parse_events,
)

if TYPE_CHECKING:
    from copydesk.analytics.classification.bot_signatures import KeyDirectory

MINUTE_MS = 60_000
MAX_INLINE_BODY_BYTES = 8 * 1024
"""Larger bodies, and compressed ones, are parsed in a thread, so that they do not block the event loop."""
MAX_WAITING_BODIES = 64
"""How many of these bodies may wait for the thread."""
PIXEL_GIF = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\4\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
NO_STORE_HEADERS = {"Cache-Control": "no-store"}
NOTHING_LOGGED = LogResult(0)
ONE_ACCEPTED_BODY = b'{"accepted":1,"duplicates":0,"dropped":[]}'

T = TypeVar("T")
NumberedDrops = Sequence[tuple[int, Dropped]]


class CollectRequest(NamedTuple):
    """A request to the public collector, from a browser or any other client."""

    method: str
    target: str
    """The path and query of the request."""
    headers: Headers
    address: str | None


def collect_request_from_scope(scope: Scope, headers: Headers) -> CollectRequest:
    query = scope["query_string"].decode("latin-1")
    target = scope["path"] + (f"?{query}" if query else "")
    return CollectRequest(scope["method"], target, headers, scope["state"]["address"])


class ViewIntake:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._collector = desk.collector
        settings = desk.settings
        per_site = RateLimit("collect-site", settings.collect_per_minute, MINUTE_MS, "COPYDESK_COLLECT_PER_MINUTE")
        self._per_site = SharedRateLimiter(per_site, desk.database, desk.rate_limit_executor)
        self._per_address = LocalRateLimiter(
            RateLimit("collect-address", settings.collect_per_address, MINUTE_MS, "COPYDESK_COLLECT_PER_ADDRESS")
        )
        self._feedback_per_address = LocalRateLimiter(
            RateLimit(
                "feedback-address", settings.feedback_per_address, 60 * MINUTE_MS, "COPYDESK_FEEDBACK_PER_ADDRESS"
            )
        )
        self._waiting_bodies = 0
        self._loaded_names: set[str] = set()
        self._pending_lookups: dict[str, asyncio.Future[Any]] = {}

    async def receive_events(self, project: Project, headers: Headers, body: bytes) -> Response:
        site = await self._look_up(project.id, lambda: self._desk.sites.for_project(project))
        with self._count_refusal(project):
            if len(body) <= MAX_INLINE_BODY_BYTES and "content-encoding" not in headers:
                parsed = _parse_body(headers, body, site)
            else:
                parsed = await self._parse_in_thread(headers, body, site)
        stored, refused = await self._store_numbered(project, parsed.interactions)
        logged = await self._collector.save(parsed.views)
        dropped = sorted([*parsed.dropped, *refused], key=lambda numbered: numbered[0])
        self._record(project, logged, dropped)
        known = len(parsed.interactions) - stored - len(refused)
        return _build_response(logged.accepted + stored, len(logged.duplicates) + known, dropped)

    async def receive_beacon(self, site_id: str, request: CollectRequest, body: bytes) -> Response:
        project, site = await self._admit(site_id, request)
        with self._count_refusal(project):
            cors_headers = cors.build_cors_headers(project.collecting.origins, request.headers.get("origin"))
            payload = parse_beacon(request.headers, body)
        if isinstance(payload, FeedbackBeacon):
            self._feedback_per_address.consume(_rate_limit_key(request))
            return await self._store_feedback(project, site, request, payload, cors_headers)
        if isinstance(payload, SearchBeacon):
            return await self._store_search(project, site, request, payload, cors_headers)
        view = await self._build_view(project, site, request, payload)
        if isinstance(view, Dropped):
            self._record(project, NOTHING_LOGGED, [(0, view)])
            return _build_response(0, 0, [(0, view)], cors_headers)
        logged = await self._collector.save([view])
        self._record(project, logged)
        return _build_response(logged.accepted, len(logged.duplicates), (), cors_headers)

    async def receive_pixel(self, site_id: str, request: CollectRequest, page_url: str | None) -> Response:
        """Counts a view and returns the image. If the view is dropped, a header of the response has the reason."""
        project, site = await self._admit(site_id, request)
        referrer = request.headers.get("referer", "")
        with self._count_refusal(project):
            cors.build_cors_headers(project.collecting.origins, cors.parse_origin(referrer or page_url or ""))
        view = await self._build_view(project, site, request, ViewBeacon.model_construct(u=page_url or referrer))
        headers = {**NO_STORE_HEADERS, **cors.CROSS_ORIGIN_HEADERS}
        if isinstance(view, Dropped):
            headers["X-Dropped"] = view.reason
            self._record(project, NOTHING_LOGGED, [(0, view)])
        else:
            self._record(project, await self._collector.save([view]))
        return Response(PIXEL_GIF, headers=headers, media_type="image/gif")

    async def answer_preflight(self, site_id: str, request: CollectRequest) -> Response:
        project, _ = await self._admit(site_id, request)
        cors_headers = cors.build_cors_headers(project.collecting.origins, request.headers.get("origin"))
        return Response(status_code=204, headers={**cors_headers, **cors.PREFLIGHT_HEADERS})

    async def _admit(self, site_id: str, request: CollectRequest) -> tuple[Project, SiteConfig]:
        self._per_address.consume(_rate_limit_key(request))
        if not is_id(site_id, "site"):
            raise SiteNotFound
        project_and_site = await self._look_up(site_id, lambda: self._desk.sites.find_by_site_id(site_id))
        with self._count_refusal(project_and_site[0]):
            self._per_site.consume(site_id)
        return project_and_site

    @contextmanager
    def _count_refusal(self, project: Project) -> Iterator[None]:
        """Counts a request that is refused as a whole, so that the project's pages can say why views are missing."""
        try:
            yield
        except TooManyRequests:
            self._desk.uncounted.add(project.id, RefusalReason.RATE_LIMITED)
            raise
        except cors.OriginRefused:
            self._desk.uncounted.add(project.id, RefusalReason.ORIGIN_REFUSED)
            raise
        except RequestError as error:
            if error.status < 500:
                self._desk.uncounted.add(project.id, RefusalReason.INVALID_REQUEST)
            raise

    def _record(self, project: Project, logged: LogResult, dropped: NumberedDrops = ()) -> None:
        _record_metrics(logged, dropped)
        for _, drop in dropped:
            self._desk.uncounted.add(project.id, drop.reason)

    async def _look_up(self, name: str, load: Callable[[], T]) -> T:
        """Runs the first look-up of a site in a thread and shares it between requests (single flight).

        It may load tables and create a key.
        """
        if name in self._loaded_names:
            return load() if self._desk.database.is_sqlite else await run_in_thread(load)
        lookup = self._pending_lookups.get(name)
        if lookup is None:
            lookup = self._pending_lookups[name] = asyncio.ensure_future(run_in_thread(load))
            lookup.add_done_callback(lambda _: self._pending_lookups.pop(name))
        result: T = await asyncio.shield(lookup)
        self._loaded_names.add(name)
        return result

    async def _parse_in_thread(self, headers: Headers, body: bytes, site: SiteConfig) -> "ParsedEvents":
        """Parses one body at a time in a thread. More threads would only wait for the interpreter lock."""
        if self._waiting_bodies >= MAX_WAITING_BODIES:
            raise CollectorBusy
        self._waiting_bodies += 1
        try:
            return await run_in_pool("read", _parse_body, headers, body, site)
        finally:
            self._waiting_bodies -= 1

    async def _build_view(
        self, project: Project, site: SiteConfig, request: CollectRequest, payload: ViewBeacon
    ) -> PageView | Dropped:
        """Builds the view, or the request for a missing page.

        The visitor is identified from the headers of this request. Ignores its Accept header, which is about our
        response and not about the page.
        """
        headers = request.headers
        if _refuses_tracking(project, request):
            return Dropped(DropReason.DO_NOT_TRACK)
        raw = RawView(
            site,
            payload.u,
            clock.now(),
            user_agent=headers.get("user-agent", "")[:MAX_AGENT_CHARS],
            address=parse_ip(request.address) if request.address else None,
            referrer=payload.r,
            status=404 if isinstance(payload, MissingBeacon) else 200,
            purpose=headers.get("sec-purpose") or headers.get("purpose") or headers.get("x-moz"),
            signer=await self._find_signer(request) if "signature-input" in headers else None,
            visitor_id=None if payload.v in (None, "") else str(payload.v),
            event_id=payload.e,
        )
        return run_pipeline(raw)

    async def _find_signer(self, request: CollectRequest) -> str | None:
        from copydesk.analytics.classification.bot_signatures import find_claimed_signer

        url = self._desk.settings.base_url + request.target
        headers = dict(request.headers)
        verified = await run_in_thread(self._signer_directory.find_signer, request.method, url, headers)
        return verified or find_claimed_signer(headers)

    @cached_property
    def _signer_directory(self) -> "KeyDirectory":
        from copydesk.analytics.classification.agent_table import load_agent_table
        from copydesk.analytics.classification.bot_signatures import KeyDirectory

        return KeyDirectory(load_agent_table().signers)

    async def _store_feedback(
        self,
        project: Project,
        site: SiteConfig,
        request: CollectRequest,
        payload: FeedbackBeacon,
        cors_headers: Mapping[str, str],
    ) -> Response:
        location = normalize_url(payload.u, site.base_path, site.kept_params)
        if isinstance(location, Dropped):
            return _build_response(0, 0, [(0, location)], cors_headers)
        now = clock.now()
        details = FeedbackDetails(
            contact=payload.contact,
            code=payload.code,
            filename=payload.filename,
            lang=payload.lang,
            source=FeedbackSource.AGENT if payload.agent else None,
            visitor=None if _refuses_tracking(project, request) else _hash_visitor(site, request, payload.v, now),
            event=hash_event_id(site, payload.e),
        )
        entry = await run_in_thread(
            self._desk.feedback.add, project.id, location.path, payload.h, payload.c, now, details
        )
        self._desk.fold_scheduler.notify_new_views()  # the scheduler also deletes expired interactions
        return _build_response(int(entry is not None), int(entry is None), (), cors_headers)

    async def _store_search(
        self,
        project: Project,
        site: SiteConfig,
        request: CollectRequest,
        payload: SearchBeacon,
        cors_headers: Mapping[str, str],
    ) -> Response:
        now = clock.now()
        query = clean_line(payload.q)
        clicked = find_clicked_path(payload.t, site)
        if _refuses_tracking(project, request):
            return _build_response(0, 0, [(0, Dropped(DropReason.DO_NOT_TRACK))], cors_headers)
        if not query:
            return _build_response(0, 0, [(0, Dropped(DropReason.BAD_FIELD, "q"))], cors_headers)
        if isinstance(clicked, Dropped):
            return _build_response(0, 0, [(0, clicked)], cors_headers)
        visitor = _hash_visitor(site, request, payload.v, now)
        search = NewSearch(query, now, payload.n, clicked, visitor, hash_event_id(site, payload.e))
        stored = await run_in_thread(self._desk.searches.add_all, project.id, [search])
        self._desk.fold_scheduler.notify_new_views()  # the scheduler also deletes expired interactions
        return _build_response(stored, 1 - stored, (), cors_headers)

    async def _store_numbered(
        self, project: Project, numbered: Sequence[tuple[int, NewInteraction]]
    ) -> tuple[int, NumberedDrops]:
        """Stores interactions, the rows of each table in one transaction.

        Returns how many were not known before, and those beyond a limit, which do not keep the others from being
        stored.
        """
        desk = self._desk
        stored, refused = 0, list[tuple[int, Dropped]]()
        tables: tuple[tuple[type[NewInteraction], Callable[[str, Any], int]], ...] = (
            (NewSearch, desk.searches.add_all),
            (NewQuestion, desk.conversations.add_all),
            (NewFeedback, desk.feedback.add_all),
        )
        for kind, add_all in tables:
            rows = {number: each for number, each in numbered if isinstance(each, kind)}
            try:
                stored += await run_in_thread(add_all, project.id, list(rows.values())) if rows else 0
            except (QuotaReached, TooManyRequests):
                refused += [(number, Dropped(DropReason.LIMIT_REACHED)) for number in rows]
        if stored:
            desk.fold_scheduler.notify_new_views()  # the scheduler also deletes expired interactions
        return stored, refused


class ParsedEvents(NamedTuple):
    """The events of one body, by how they are stored."""

    views: list[PageView]
    interactions: list[tuple[int, NewInteraction]]
    dropped: NumberedDrops


def _refuses_tracking(project: Project, request: CollectRequest) -> bool:
    headers = request.headers
    return project.collecting.do_not_track and (headers.get("dnt") == "1" or headers.get("sec-gpc") == "1")


def _hash_visitor(site: SiteConfig, request: CollectRequest, visitor_id: str | int | None, at: int) -> int | None:
    """Returns the hash of the visitor: of the site's own ID, or of the address and user agent of this request."""
    own_id = None if visitor_id in (None, "") else str(visitor_id)
    address = parse_ip(request.address) if request.address else None
    return site.hasher.hash_visitor(at, own_id, address, request.headers.get("user-agent", "")[:MAX_AGENT_CHARS])


def _rate_limit_key(request: CollectRequest) -> bytes:
    """Returns the client's network as the key for rate limits; all clients with unknown addresses share one key."""
    return to_client_network(parse_ip(request.address or "") or b"")


def _parse_body(headers: Headers, body: bytes, site: SiteConfig) -> ParsedEvents:
    now = clock.now()
    events: list[NumberedEvent] = []
    interactions: list[tuple[int, NewInteraction]] = []
    for number, event in parse_events(headers, body):
        if not isinstance(event, SearchEvent | AssistantEvent | FeedbackEvent):
            events.append((number, event))
            continue
        interaction = interaction_from_event(event, site, now)
        if isinstance(interaction, Dropped):
            events.append((number, interaction))
        else:
            interactions.append((number, interaction))
    views, dropped = views_from_events(events, site, now)
    return ParsedEvents(views, interactions, dropped)


def _record_metrics(logged: LogResult, dropped: NumberedDrops = ()) -> None:
    if logged.accepted:
        instruments.views.labels("accepted").inc(logged.accepted)
    if logged.duplicates:
        instruments.views.labels("duplicate").inc(len(logged.duplicates))
    for _, drop in dropped:
        instruments.views.labels(drop.reason).inc()


def _build_response(
    accepted: int, duplicates: int, dropped: NumberedDrops, headers: Mapping[str, str] | None = None
) -> Response:
    body = ONE_ACCEPTED_BODY
    if dropped or (accepted, duplicates) != (1, 0):
        entries = [_describe_drop(number, drop) for number, drop in dropped]
        payload = {"accepted": accepted, "duplicates": duplicates, "dropped": entries}
        body = json.dumps(payload, separators=(",", ":")).encode()
    return Response(body, 202, {**NO_STORE_HEADERS, **(headers or {})}, "application/json")


def _describe_drop(index: int, drop: Dropped) -> dict[str, object]:
    field_entry = {"field": drop.field} if drop.field else {}
    return {"index": index, "reason": drop.reason, **field_entry, "message": drop.message}
