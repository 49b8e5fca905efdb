"""Sends due deliveries. Every worker has a dispatcher, in a thread of its own; each delivery is claimed once.

Sending is asynchronous, so that a receiver that hangs costs a socket and no thread.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NamedTuple

from copydesk import __version__
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, StoreUnavailable
from copydesk.core.projects.sealed_secrets import CannotUnseal, SealedSecrets
from copydesk.core.telemetry import instruments
from copydesk.core.text.redaction import redact_tokens
from copydesk.webhooks.endpoints import previous_secret_name, url_secret_name
from copydesk.webhooks.outbox import LEASE_MS, AttemptResult, ClaimedDelivery, DeliveryOutbox, judge_result
from copydesk.webhooks.payloads import build_body
from copydesk.webhooks.signatures import build_headers
from copydesk.webhooks.targets import Resolver, Target, TargetRefused, find_addresses, parse_target, resolve_host
from copydesk.webhooks.transport import HttpTransport, NoReply, Reply, Transport

TICK_SECONDS = 1.0
SWEEP_SECONDS = 600.0
DELIVERY_TIMEOUT_SECONDS = 15.0
"""For everything: resolving the host, connecting, sending, and reading the headers of the answer."""
CLAIM_INTERVAL_SECONDS = 0.5
RESOLVER_THREADS = 64
MAX_EXCERPT_CHARS = 500
ADDRESS_SECONDS = 5.0
"""How long checked addresses are used without resolving the host again."""

log = logging.getLogger(__name__)


class DispatcherOptions(NamedTuple):
    base_url: str
    slots: int
    log_days: int
    allow_private: bool
    timeout_seconds: float = DELIVERY_TIMEOUT_SECONDS
    resolve: Resolver = resolve_host


class Route(NamedTuple):
    """Where an endpoint's deliveries go, and the secrets that sign them, the newest first."""

    target: Target
    signing_secrets: Sequence[str]


class Dispatcher:
    def __init__(
        self,
        outbox: DeliveryOutbox,
        secrets: SealedSecrets,
        options: DispatcherOptions,
        transport: Transport | None = None,
    ) -> None:
        self.outbox = outbox
        self.secrets = secrets
        self.options = options
        self.transport = transport or HttpTransport()
        self._addresses: dict[Target, tuple[float, Sequence[str]]] = {}
        """The checked addresses of each target, with the time of `time.monotonic` until which they are used."""
        # Not the executor of an event loop, which would wait for hosts whose name servers hang.
        self._resolvers = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="webhook-dns")

    def tick(self) -> None:
        """Sends everything that is due, and returns when there is nothing left. Costs one query if nothing is due."""
        if self.outbox.has_due():
            asyncio.run(self._send_due())

    def sweep(self) -> None:
        self.outbox.sweep(self.options.log_days)

    def send_now(self, delivery_id: str) -> AttemptResult | None:
        """Sends this delivery at once and returns the result; None if another server is sending it or has sent it."""
        delivery = self.outbox.claim_one(delivery_id)
        if delivery is None:
            return None
        routes = self._load_routes([delivery])
        result = asyncio.run(self._send(delivery, routes[delivery.endpoint_id], time.monotonic()))
        self.outbox.record([result])
        return result

    async def _send_due(self) -> None:
        """Claims, sends and records until nothing is due. Results are recorded in batches while others are sent."""
        tasks: set[asyncio.Task[AttemptResult]] = set()
        running: Counter[str] = Counter()
        is_closing = False
        while True:
            free = self.options.slots - len(tasks)
            claimed = [] if is_closing or not free else await self._claim(free, running)
            claimed_at = time.monotonic()
            routes = await asyncio.to_thread(self._load_routes, claimed) if claimed else {}
            for delivery in claimed:
                route = routes[delivery.endpoint_id]
                tasks.add(asyncio.create_task(self._send(delivery, route, claimed_at)))
                running[delivery.endpoint_id] += 1
            if not tasks:
                return
            done, tasks = await asyncio.wait(tasks, timeout=CLAIM_INTERVAL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            results = [task.result() for task in done]
            running.subtract(result.delivery.endpoint_id for result in results)
            running += Counter()  # removes endpoints without deliveries
            await self._record(results)
            is_closing = self.outbox.database.notifications.is_closing

    async def _claim(self, slots: int, running: Counter[str]) -> list[ClaimedDelivery]:
        """Claims deliveries. Returns none if the database is unavailable, so that those in progress can end."""
        try:
            return await asyncio.to_thread(self.outbox.claim, slots, running)
        except StoreUnavailable as error:
            log.warning("webhook deliveries could not be claimed: %s", error)
            return []

    async def _record(self, results: Sequence[AttemptResult]) -> None:
        """Stores results. If that fails, the deliveries are sent again after their lease."""
        if not results:
            return
        try:
            await asyncio.to_thread(self.outbox.record, results)
        except Exception as error:  # the deliveries in progress must not be lost, too
            log.warning(
                "the results of %d webhook deliveries could not be stored: %s",
                len(results),
                error,
                exc_info=not isinstance(error, StoreUnavailable),
            )

    async def _send(self, delivery: ClaimedDelivery, route: "Route | Exception", claimed_at: float) -> AttemptResult:
        """Sends one delivery. Returns what came of it, and never raises."""
        at, started = clock.now(), time.monotonic()
        if started - claimed_at > LEASE_MS / clock.SECOND / 2:  # the process was paused, so the lease may be over
            return AttemptResult(delivery, at, 0, None, "The server was paused before it could send this.")
        error: str | None
        reply: Reply | None = None
        is_timeout = False
        try:
            async with asyncio.timeout(self.options.timeout_seconds):
                if isinstance(route, Exception):
                    raise route
                reply = await self._post(delivery, route, at // clock.SECOND)
            error = _judge_reply(reply)
        except TimeoutError:
            error, is_timeout = f"No answer within {self.options.timeout_seconds:.0f} seconds.", True
        except (NoReply, TargetRefused, InvalidRequest, CannotUnseal) as problem:
            error = str(problem)
        except Exception as problem:  # an error of one delivery must not stop the others
            log.exception("webhook delivery %s could not be sent", delivery.id)
            error = f"The delivery could not be sent: {type(problem).__name__}."
        seconds = time.monotonic() - started
        result = AttemptResult(
            delivery=delivery,
            at=at,
            duration_ms=int(seconds * clock.SECOND),
            status=reply.status if reply else None,
            error=error,
            excerpt=_read_excerpt(reply) if reply else "",
            retry_after_ms=_parse_retry_after(reply.headers.get("retry-after", ""), at) if reply else 0,
            is_timeout=is_timeout,
        )
        instruments.webhook_attempts.labels(judge_result(result).outcome or "retried").inc()
        instruments.webhook_seconds.observe(seconds)
        return result

    async def _post(self, delivery: ClaimedDelivery, route: Route, at_seconds: int) -> Reply:
        addresses = await self._find_addresses(route.target)
        body = build_body(delivery.content, delivery.format, self.options.base_url)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"copydesk/{__version__}",
            "Accept-Encoding": "identity",
            **build_headers(delivery.event_id, at_seconds, body, route.signing_secrets),
        }
        return await self.transport.post(route.target, addresses, headers, body)

    async def _find_addresses(self, target: Target) -> Sequence[str]:
        """Returns addresses that were resolved and checked just now. The connection goes to one of these."""
        now = time.monotonic()
        until, addresses = self._addresses.get(target, (0.0, ()))
        if until < now:
            options = self.options
            check = partial(find_addresses, target, allow_private=options.allow_private, resolve=options.resolve)
            addresses = await asyncio.get_running_loop().run_in_executor(self._resolvers, check)
            self._addresses = {key: value for key, value in self._addresses.items() if value[0] > now}
            self._addresses[target] = (now + ADDRESS_SECONDS, addresses)
        return addresses

    def _load_routes(self, claimed: Sequence[ClaimedDelivery]) -> "dict[str, Route | Exception]":
        """Returns the route of each endpoint, or why there is none."""
        routes: dict[str, Route | Exception] = {}
        for delivery in claimed:
            if delivery.endpoint_id not in routes:
                try:
                    routes[delivery.endpoint_id] = self._load_route(delivery)
                except Exception as problem:  # the deliveries of other endpoints must not wait
                    routes[delivery.endpoint_id] = problem
        return routes

    def _load_route(self, delivery: ClaimedDelivery) -> Route:
        values = self.secrets.all(delivery.content.project_id)
        url, secret = values.get(url_secret_name(delivery.endpoint_id)), values.get(delivery.endpoint_id)
        if url is None or secret is None:
            raise TargetRefused("The webhook was removed.")
        signing_secrets = [secret]
        previous = values.get(previous_secret_name(delivery.endpoint_id))
        if previous is not None and (delivery.previous_secret_until or 0) > clock.now():
            signing_secrets.append(previous)
        return Route(parse_target(url, allow_private=self.options.allow_private), signing_secrets)


def _judge_reply(reply: Reply) -> str | None:
    """Returns why the receiver did not accept the delivery; None if it did. Only the status counts."""
    if 200 <= reply.status < 300:
        return None
    if 300 <= reply.status < 400:
        return f"The receiver answered {reply.status}. Redirects are not followed; change the webhook's URL."
    return f"The receiver answered {reply.status}."


def _read_excerpt(reply: Reply) -> str:
    """Returns the beginning of the answer, without secrets and control characters."""
    text = redact_tokens(reply.excerpt.decode("utf-8", "replace"))
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)[:MAX_EXCERPT_CHARS]


def _parse_retry_after(value: str, now: int) -> int:
    """Returns the milliseconds that a Retry-After header asks for; 0 if it is missing or invalid."""
    if value.isascii() and value.isdigit() and len(value) < 10:
        return int(value) * clock.SECOND
    with suppress(ValueError, TypeError, OverflowError):
        return max(0, int(parsedate_to_datetime(value).timestamp() * clock.SECOND) - now)
    return 0
