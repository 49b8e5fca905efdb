"""The outbox: which deliveries are due, which server sends each, and what came of it.

A delivery is sent at least once: a server that dies between the receiver's answer and its own record leaves a lease
that expires, and another server sends it again with the same `webhook-id`.
"""

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, and_, bindparam, delete, exists, insert, or_, select, update

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.projects.event_tables import delivery_attempts, event_deliveries, webhook_endpoints, webhook_events
from copydesk.core.projects.project_events import EventType, delete_deliveries
from copydesk.webhooks.payloads import EventContent

MINUTE = 60 * clock.SECOND
LEASE_MS = 2 * MINUTE
"""Longer than a delivery can take."""
RETRY_DELAYS_MS = tuple(seconds * clock.SECOND for seconds in (5, 30, 120, 600, 1800, 3600, 7200))
"""The waiting time after each attempt; the last one repeats."""
JITTER = 0.2
"""The largest share by which a waiting time is varied, so that receivers do not get everything at once."""
GIVE_UP_MS = clock.DAY
SWEEP_MS = GIVE_UP_MS + 10 * MINUTE
"""After this time a delivery ends also if it could not be tried, as that of a disabled endpoint."""
MAX_HOLD_MS = clock.HOUR
"""The longest time for which a receiver can hold all deliveries of its endpoint with Retry-After."""
MAX_PER_ENDPOINT = 8
MAX_ROWS_PER_SWEEP = 1_000
HOLD_STATUSES = (429, 503)
GONE = 410
SYSTEM_ACTOR = "copydesk"

log = logging.getLogger(__name__)
deliveries, endpoints, events = event_deliveries, webhook_endpoints, webhook_events

UPDATE_DELIVERY = (
    update(deliveries)
    .where(deliveries.c.id == bindparam("delivery"))
    .values(
        next_attempt_at=bindparam("next_at"),
        lease_until=0,
        ended_at=bindparam("end"),
        outcome=bindparam("result"),
        last_status=bindparam("status"),
        error=bindparam("problem"),
    )
)


class ClaimedDelivery(NamedTuple):
    id: str
    endpoint_id: str
    event_id: str
    content: EventContent
    format: str
    created_at: int
    attempts: int
    """Including this one."""
    lease_until: int
    previous_secret_until: int | None


class AttemptResult(NamedTuple):
    """What came of one attempt. `status` None means that there was no answer."""

    delivery: ClaimedDelivery
    at: int
    duration_ms: int
    status: int | None
    error: str | None
    """None means that the receiver accepted the delivery."""
    excerpt: str = ""
    retry_after_ms: int = 0
    is_timeout: bool = False

    @property
    def is_delivered(self) -> bool:
        return self.error is None


class DeliveryEnd(NamedTuple):
    """What a result does to its delivery."""

    outcome: str | None
    """`delivered`, `given_up` or `cancelled`; None means that it is tried again."""
    next_attempt_at: int | None


class DeliveryOutbox:
    def __init__(self, database: Database) -> None:
        self.database = database
        earlier = deliveries.alias("earlier")
        is_behind = exists().where(
            earlier.c.endpoint_id == deliveries.c.endpoint_id,
            earlier.c.order_key == deliveries.c.order_key,
            earlier.c.position < deliveries.c.position,
            earlier.c.next_attempt_at.is_not(None),
        )
        is_free = or_(deliveries.c.lease_until <= database.now, deliveries.c.lease_until > database.now + 2 * LEASE_MS)
        self._is_free = and_(deliveries.c.next_attempt_at.is_not(None), is_free)
        self._is_due = and_(deliveries.c.next_attempt_at <= database.now, is_free, ~is_behind)
        """Also False for a delivery that waits for an earlier one of its job."""
        is_open = (endpoints.c.hold_until <= database.now) & endpoints.c.enabled
        has_due = exists().where(deliveries.c.endpoint_id == endpoints.c.id, self._is_due)
        self._select_due_endpoints = select(endpoints.c.id, endpoints.c.is_slow).where(is_open, has_due)
        of_endpoint = deliveries.c.endpoint_id == bindparam("endpoint")
        query = select(deliveries.c.id).where(of_endpoint, self._is_due)
        self._select_due = query.order_by(deliveries.c.next_attempt_at, deliveries.c.id).limit(
            bindparam("slots", type_=Integer)
        )

    def has_due(self) -> bool:
        with self.database.read() as tx:
            return tx.execute(self._select_due_endpoints.limit(1)).first() is not None

    def claim(self, slots: int, running: Mapping[str, int]) -> list[ClaimedDelivery]:
        """Claims at most this many due deliveries, which no other server sends while the lease lasts.

        `running` says how many deliveries of each endpoint this server is sending. Endpoints with the fewest come
        first, so that no endpoint can take the slots of the others. One that timed out gets a single slot.
        """
        claimed: list[ClaimedDelivery] = []
        with self.database.read() as tx:
            due = list(tx.execute(self._select_due_endpoints).all())
        random.shuffle(due)
        due.sort(key=lambda row: running.get(row.id, 0))
        limits = {row.id: (1 if row.is_slow else MAX_PER_ENDPOINT) - running.get(row.id, 0) for row in due}
        if not any(limit > 0 for limit in limits.values()):
            return []
        with self.database.write() as tx:
            for endpoint_id, limit in limits.items():
                free = min(limit, slots - len(claimed))
                if free > 0:
                    claimed += self._claim_from(tx, endpoint_id, free)
        return claimed

    def claim_one(self, delivery_id: str) -> ClaimedDelivery | None:
        """Claims this delivery, also if it is not due, unless it has ended or another server is sending it."""
        with self.database.write() as tx:
            query = select(deliveries.c.id).where(deliveries.c.id == delivery_id, self._is_free)
            ids = tx.execute(self._lock(query)).scalars().all()
            return next(iter(self._lease(tx, ids)), None)

    def record(self, results: Sequence[AttemptResult]) -> None:
        """Stores results and writes the log of attempts. Ignores deliveries that another server has by now.

        Locks endpoints before deliveries, each in the order of their IDs, as every other transaction does.
        """
        with self.database.write() as tx:
            endpoint_ids = sorted({result.delivery.endpoint_id for result in results})
            query = select(endpoints.c.id, endpoints.c.failing_since).where(endpoints.c.id.in_(endpoint_ids))
            known = {row.id: row.failing_since for row in tx.execute(self._lock(query.order_by(endpoints.c.id)))}
            results = self._keep_own(tx, [each for each in results if each.delivery.endpoint_id in known])
            if not results:
                return
            for endpoint_id in endpoint_ids:
                own = [result for result in results if result.delivery.endpoint_id == endpoint_id]
                if own:
                    self._record_health(tx, endpoint_id, known[endpoint_id], own)
            tx.execute(UPDATE_DELIVERY, [_to_update(result) for result in results])
            tx.execute(insert(delivery_attempts), [_to_attempt_row(result) for result in results])
            for endpoint_id in {each.delivery.endpoint_id for each in results if each.status == GONE}:
                self._disable_gone(tx, endpoint_id)

    def sweep(self, log_days: int) -> None:
        """Gives up deliveries that are too old, and deletes the log of those that ended long ago."""
        now = clock.now()
        with self.database.write() as tx:
            is_old = deliveries.c.next_attempt_at.is_not(None) & (deliveries.c.created_at < now - SWEEP_MS)
            values = {"next_attempt_at": None, "ended_at": now, "outcome": "given_up", "error": GIVEN_UP_TEXT}
            is_unsent = is_old & (deliveries.c.lease_until <= self.database.now)
            given_up = tx.execute(update(deliveries).where(is_unsent).values(values)).rowcount
            before = now - log_days * clock.DAY
            is_ended = deliveries.c.next_attempt_at.is_(None) & (deliveries.c.created_at < before)
            ids = tx.execute(select(deliveries.c.id).where(is_ended).limit(MAX_ROWS_PER_SWEEP)).scalars().all()
            delete_deliveries(tx, select(deliveries.c.id).where(deliveries.c.id.in_(ids)))
            has_delivery = exists().where(deliveries.c.event_id == events.c.id)
            is_unused = (events.c.created_at < before) & ~has_delivery
            tx.execute(delete(events).where(is_unused))
        if given_up:
            log.warning("%d webhook deliveries were given up after 24 hours", given_up)

    def _lock(self, query: Any, *, skip: bool = False) -> Any:
        """Returns the query with locks on its rows. With `skip`, it leaves out rows that another server has locked."""
        return query.with_for_update(skip_locked=skip, key_share=True)

    def _claim_from(self, tx: Connection, endpoint_id: str, slots: int) -> list[ClaimedDelivery]:
        query = self._lock(self._select_due, skip=True)
        ids = tx.execute(query, {"endpoint": endpoint_id, "slots": slots}).scalars().all()
        return self._lease(tx, ids)

    def _lease(self, tx: Connection, ids: Sequence[str]) -> list[ClaimedDelivery]:
        """Leases these deliveries, and returns them with their events."""
        if not ids:
            return []
        lease = {"lease_until": self.database.now + LEASE_MS, "attempts": deliveries.c.attempts + 1}
        tx.execute(update(deliveries).where(deliveries.c.id.in_(ids)).values(lease))
        query = (
            select(
                deliveries,
                endpoints.c.format,
                endpoints.c.previous_secret_until,
                events.c.type,
                events.c.data,
                events.c.project_id,
                events.c.created_at.label("event_at"),
                projects.c.name.label("project_name"),
            )
            .join(endpoints, endpoints.c.id == deliveries.c.endpoint_id)
            .join(events, events.c.id == deliveries.c.event_id)
            .join(projects, projects.c.id == events.c.project_id)
            .where(deliveries.c.id.in_(ids))
            .order_by(deliveries.c.id)
        )
        return [
            ClaimedDelivery(
                id=row.id,
                endpoint_id=row.endpoint_id,
                event_id=row.event_id,
                content=EventContent(row.type, row.data, row.event_at, row.project_id, row.project_name),
                format=row.format,
                created_at=row.created_at,
                attempts=row.attempts,
                lease_until=row.lease_until,
                previous_secret_until=row.previous_secret_until,
            )
            for row in tx.execute(query)
        ]

    def _keep_own(self, tx: Connection, results: Sequence[AttemptResult]) -> list[AttemptResult]:
        """Returns the results of deliveries that this server still holds, and locks them."""
        ids = [result.delivery.id for result in results]
        query = select(deliveries.c.id, deliveries.c.lease_until).where(deliveries.c.id.in_(ids))
        leases = {row.id: row.lease_until for row in tx.execute(self._lock(query.order_by(deliveries.c.id)))}
        return [each for each in results if leases.get(each.delivery.id) == each.delivery.lease_until]

    def _record_health(
        self, tx: Connection, endpoint_id: str, failing_since: int | None, results: Sequence[AttemptResult]
    ) -> None:
        """Updates what the endpoint's page shows, and for how long it gets nothing. The last result counts."""
        last = max(results, key=lambda result: result.at + result.duration_ms)
        values: dict[str, Any] = {"is_slow": last.is_timeout}
        successes = [result for result in results if result.is_delivered]
        if successes:
            values["last_success_at"] = max(result.at for result in successes)
        if last.is_delivered:
            values |= {"failing_since": None, "last_error": None}
        else:
            values |= {"failing_since": failing_since or last.at, "last_error": last.error}
        holds = [each.retry_after_ms for each in results if each.status in HOLD_STATUSES and each.retry_after_ms]
        if holds:
            values["hold_until"] = self.database.now + min(max(holds), MAX_HOLD_MS)
        tx.execute(update(endpoints).where(endpoints.c.id == endpoint_id).values(values))

    def _disable_gone(self, tx: Connection, endpoint_id: str) -> None:
        """Disables an endpoint whose receiver answered 410, and cancels its other deliveries."""
        query = update(endpoints).where(endpoints.c.id == endpoint_id, endpoints.c.enabled)
        row = tx.execute(query.values(enabled=False, is_gone=True).returning(endpoints.c.project_id)).first()
        waiting = (deliveries.c.endpoint_id == endpoint_id) & deliveries.c.next_attempt_at.is_not(None)
        ended = {"next_attempt_at": None, "ended_at": clock.now(), "outcome": "cancelled", "error": GONE_TEXT}
        tx.execute(update(deliveries).where(waiting).values(ended))
        if row is not None:
            audit_log.record(tx, row.project_id, SYSTEM_ACTOR, "webhook.gone", endpoint_id)
            log.warning("webhook %s is disabled, because its receiver answered 410", endpoint_id)


GIVEN_UP_TEXT = "Not delivered within 24 hours."
GONE_TEXT = "The receiver answered 410, which disabled the webhook."


def judge_result(result: AttemptResult) -> DeliveryEnd:
    """Decides whether the delivery ends or when it is tried again. The last attempt is a day after the event."""
    if result.is_delivered:
        return DeliveryEnd("delivered", None)
    if result.status == GONE:
        return DeliveryEnd("cancelled", None)
    now = result.at + result.duration_ms
    give_up_at = result.delivery.created_at + GIVE_UP_MS
    if now >= give_up_at or result.delivery.content.type == EventType.TEST:
        return DeliveryEnd("given_up", None)
    delay = RETRY_DELAYS_MS[min(result.delivery.attempts, len(RETRY_DELAYS_MS)) - 1]
    varied_delay = int(delay * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311 (not a secret)
    return DeliveryEnd(None, min(now + max(varied_delay, result.retry_after_ms), give_up_at))


def _to_update(result: AttemptResult) -> dict[str, Any]:
    end = judge_result(result)
    if end.outcome == "given_up":
        log.warning("webhook delivery %s is given up: %s", result.delivery.id, result.error)
    return {
        "delivery": result.delivery.id,
        "next_at": end.next_attempt_at,
        "end": result.at + result.duration_ms if end.outcome else None,
        "result": end.outcome,
        "status": result.status,
        "problem": result.error,
    }


def _to_attempt_row(result: AttemptResult) -> dict[str, Any]:
    return {
        "delivery_id": result.delivery.id,
        "number": result.delivery.attempts,
        "at": result.at,
        "duration_ms": result.duration_ms,
        "status": result.status,
        "error": result.error,
        "excerpt": result.excerpt,
    }
