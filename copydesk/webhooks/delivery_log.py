"""The log of deliveries: what was sent to an endpoint and what it answered; redelivery, and test events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, select

from copydesk.core import audit_log
from copydesk.core.db.database import Database
from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.ids import is_id
from copydesk.core.projects.event_tables import delivery_attempts, event_deliveries, webhook_events
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.project_events import EventType, insert_delivery, insert_event
from copydesk.webhooks.endpoints import Endpoints

deliveries, events = event_deliveries, webhook_events
MAX_PAGE_ROWS = 100


class DeliveryNotFound(NotFound):
    code = "delivery_not_found"
    message = "Delivery not found in this webhook."


@dataclass(frozen=True)
class Delivery:
    id: str
    endpoint_id: str
    event_id: str
    """The `webhook-id`."""
    event_type: str
    created_at: int
    attempts: int
    outcome: str | None
    """`delivered`, `given_up` or `cancelled`; None while it waits."""
    ended_at: int | None
    next_attempt_at: int | None
    """None if the delivery has ended; 0 means at once."""
    last_status: int | None
    error: str | None

    @property
    def due_at(self) -> int | None:
        """Returns when the next attempt is due; None if the delivery has ended."""
        return None if self.next_attempt_at is None else max(self.next_attempt_at, self.created_at)

    @property
    def state(self) -> str:
        """Returns the outcome, or `waiting`, or `retrying` after a failed attempt."""
        return self.outcome or ("retrying" if self.error else "waiting")


class Attempt(NamedTuple):
    number: int
    at: int
    duration_ms: int
    status: int | None
    error: str | None
    excerpt: str


class DeliveryDetails(NamedTuple):
    delivery: Delivery
    attempts: Sequence[Attempt]
    """Oldest first."""
    data: dict[str, Any]
    """The data of the event."""


class DeliveryLog:
    def __init__(self, database: Database, endpoints: Endpoints) -> None:
        self.database = database
        self.endpoints = endpoints

    def list_page(
        self, project_id: str, endpoint_id: str, limit: int = 50, cursor: str | None = None
    ) -> tuple[list[Delivery], str | None]:
        """Returns deliveries, newest first, and the cursor of the next page; None means that there is none."""
        if cursor is not None and not is_id(cursor, "dlv"):
            raise InvalidRequest("This cursor is invalid. Start again without it.")
        query = _select_deliveries().where(deliveries.c.endpoint_id == endpoint_id)
        if cursor is not None:
            query = query.where(deliveries.c.id < cursor)
        with self.database.read() as tx:
            self.endpoints.get_in(tx, project_id, endpoint_id)
            rows = tx.execute(query.order_by(deliveries.c.id.desc()).limit(limit + 1)).all()
        page = [_delivery_from_row(row) for row in rows[:limit]]
        return page, page[-1].id if len(rows) > limit else None

    def get(self, project_id: str, endpoint_id: str, delivery_id: str) -> DeliveryDetails:
        """Returns a delivery with its attempts. Raises DeliveryNotFound for one of another endpoint, too."""
        same_row = (deliveries.c.id == delivery_id) & (deliveries.c.endpoint_id == endpoint_id)
        query = select(*(delivery_attempts.c[name] for name in Attempt._fields))
        query = query.where(delivery_attempts.c.delivery_id == delivery_id).order_by(delivery_attempts.c.number)
        with self.database.read() as tx:
            self.endpoints.get_in(tx, project_id, endpoint_id)
            row = tx.execute(_select_deliveries().add_columns(events.c.data).where(same_row)).first()
            if row is None:
                raise DeliveryNotFound
            attempts = [Attempt(*attempt) for attempt in tx.execute(query)]
        return DeliveryDetails(_delivery_from_row(row), attempts, row.data)

    def redeliver(self, project_id: str, endpoint_id: str, delivery_id: str, *, actor: str) -> Delivery:
        """Sends an event again, with the same `webhook-id`, as a new delivery. It does not wait for others."""
        event_id = self.get(project_id, endpoint_id, delivery_id).delivery.event_id
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            if not self.endpoints.get_in(tx, project_id, endpoint_id).enabled:
                raise InvalidRequest("The webhook is disabled. Enable it first.")
            new_delivery_id = insert_delivery(tx, endpoint_id, event_id)
            audit_log.record(tx, project_id, actor, "webhook.redelivered", endpoint_id, delivery=delivery_id)
        return self.get(project_id, endpoint_id, new_delivery_id).delivery

    def send_test(self, project_id: str, endpoint_id: str, *, actor: str, delay_ms: int = 0) -> Delivery:
        """Queues a test event for one endpoint. It is tried once, by a worker after the delay."""
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            if not self.endpoints.get_in(tx, project_id, endpoint_id).enabled:
                raise InvalidRequest("The webhook is disabled. Enable it first.")
            data = {"webhook": {"id": endpoint_id}, "message": "This is a test of your webhook."}
            event_id = insert_event(tx, project_id, EventType.TEST, endpoint_id, data)
            delivery_id = insert_delivery(tx, endpoint_id, event_id, delay_ms=delay_ms)
            audit_log.record(tx, project_id, actor, "webhook.tested", endpoint_id)
        return self.get(project_id, endpoint_id, delivery_id).delivery


def _select_deliveries() -> Select[Any]:
    names = [name for name in Delivery.__dataclass_fields__ if name != "event_type"]
    query = select(*(deliveries.c[name] for name in names), events.c.type.label("event_type"))
    return query.join(events, events.c.id == deliveries.c.event_id)


def _delivery_from_row(row: Row[Any]) -> Delivery:
    return Delivery(**{name: row._mapping[name] for name in Delivery.__dataclass_fields__})
