"""Records the events of a project for its webhooks, in the transaction of the change that they tell of.

A crash before the commit loses the change and its event; after the commit, the event is delivered.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.ids import new_id
from copydesk.core.projects.event_tables import delivery_attempts, event_deliveries, webhook_endpoints, webhook_events


class EventType(StrEnum):
    """Types of events. The values are stored and are part of the API, so they must not change."""

    JOB_COMPLETED = "job.completed"
    JOB_FAILED = "job.failed"
    JOB_ARCHIVED = "job.archived"
    PULL_OPENED = "pull_request.opened"
    PULL_MERGED = "pull_request.merged"
    PULL_CLOSED = "pull_request.closed"
    AUTOMATION_FAILED = "automation.failed"
    FEEDBACK_CREATED = "feedback.created"
    SUMMARY_WEEKLY = "summary.weekly"
    TEST = "webhook.test"
    """Sent on request to one endpoint. Endpoints do not choose it."""


SELECT_ENDPOINTS = select(webhook_endpoints.c.id, webhook_endpoints.c.events).where(
    webhook_endpoints.c.project_id == bindparam("project"), webhook_endpoints.c.enabled
)
# The key share lock makes a deletion of the endpoint wait, so that no delivery refers to a missing one.
LOCK_ENDPOINTS = SELECT_ENDPOINTS.with_for_update(key_share=True, read=True)
LOCK_PROJECT = (
    select(projects.c.id).where(projects.c.id == bindparam("project")).with_for_update(key_share=True, read=True)
)
SELECT_LAST_POSITION = select(func.coalesce(func.max(event_deliveries.c.position), 0)).where(
    event_deliveries.c.endpoint_id == bindparam("endpoint"), event_deliveries.c.order_key == bindparam("key")
)


def record_event(
    database: Database,
    tx: Connection,
    project_id: str,
    event_type: EventType,
    subject: str,
    build_data: Callable[[], dict[str, Any]],
    *,
    order_key: str | None = None,
) -> bool:
    """Stores an event, and a delivery for each enabled endpoint that chose its type. Returns False if none did.

    Deliveries with the same `order_key`, a job's ID, keep their order; the caller has locked that job.
    """
    endpoint_ids = _find_listeners(database, tx, project_id, event_type)
    if not endpoint_ids:
        return False
    event_id = insert_event(tx, project_id, event_type, subject, build_data())
    for endpoint_id in endpoint_ids:
        insert_delivery(tx, endpoint_id, event_id, order_key)
    return True


def _find_listeners(database: Database, tx: Connection, project_id: str, event_type: EventType) -> list[str]:
    """Returns the enabled endpoints that chose this type of event, locked.

    Locks the project before its endpoints, as its deletion does."""
    rows = tx.execute(SELECT_ENDPOINTS, {"project": project_id}).all()
    if not database.is_sqlite and any(event_type in row.events for row in rows):
        tx.execute(LOCK_PROJECT, {"project": project_id})
        rows = tx.execute(LOCK_ENDPOINTS, {"project": project_id}).all()
    return [row.id for row in rows if event_type in row.events]


def has_listener(database: Database, project_id: str, event_type: EventType) -> bool:
    """Returns whether an enabled endpoint of the project chose this type of event."""
    with database.read() as tx:
        rows = tx.execute(SELECT_ENDPOINTS, {"project": project_id}).all()
    return any(event_type in row.events for row in rows)


def insert_event(tx: Connection, project_id: str, event_type: EventType, subject: str, data: dict[str, Any]) -> str:
    event_id = new_id("msg")
    row = {"id": event_id, "project_id": project_id, "type": event_type.value, "subject": subject, "data": data}
    tx.execute(insert(webhook_events), {**row, "created_at": clock.now()})
    return event_id


def insert_delivery(
    tx: Connection, endpoint_id: str, event_id: str, order_key: str | None = None, *, delay_ms: int = 0
) -> str:
    """Stores a delivery that is due at once, or after a delay."""
    position = 0
    if order_key is not None:
        position = tx.execute(SELECT_LAST_POSITION, {"endpoint": endpoint_id, "key": order_key}).scalar_one() + 1
    row = {
        "id": new_id("dlv"),
        "endpoint_id": endpoint_id,
        "event_id": event_id,
        "order_key": order_key,
        "position": position,
        "created_at": clock.now(),
        "attempts": 0,
        "next_attempt_at": clock.now() + delay_ms if delay_ms else 0,
        "lease_until": 0,
    }
    tx.execute(insert(event_deliveries), row)
    return str(row["id"])


def delete_events_about(tx: Connection, subjects: Select[Any]) -> None:
    """Deletes the events about deleted entries with their deliveries, also those that wait."""
    event_ids = select(webhook_events.c.id).where(webhook_events.c.subject.in_(subjects))
    delete_deliveries(tx, select(event_deliveries.c.id).where(event_deliveries.c.event_id.in_(event_ids)))
    tx.execute(delete(webhook_events).where(webhook_events.c.id.in_(event_ids)))


def delete_deliveries(tx: Connection, delivery_ids: Select[Any]) -> None:
    """Deletes deliveries with the log of their attempts."""
    tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(delivery_ids)))
    tx.execute(delete(event_deliveries).where(event_deliveries.c.id.in_(delivery_ids)))


def lock_endpoints_of_project(tx: Connection, project_id: str) -> None:
    """Locks the endpoints of a project that is deleted, before their deliveries, as every other transaction does."""
    of_project = select(webhook_endpoints.c.id).where(webhook_endpoints.c.project_id == project_id)
    tx.execute(of_project.order_by(webhook_endpoints.c.id).with_for_update())
