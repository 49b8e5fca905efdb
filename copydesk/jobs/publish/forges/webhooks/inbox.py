"""Keeps the events of webhooks until they are processed, so that an outage of the forge loses none."""

import logging
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, select, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.jobs.publish.forges.webhooks import payloads
from copydesk.jobs.publish.forges.webhooks.payloads import AgentMentioned, PullEvent
from copydesk.jobs.storage.tables import pending_events

log = logging.getLogger(__name__)

MAX_EVENTS_PER_PROJECT = 1000
MAX_EVENTS_PER_ROUND = 50
FIRST_DELAY_MILLISECONDS = 30 * clock.SECOND
MAX_DELAY_MILLISECONDS = clock.HOUR
RETENTION_MILLISECONDS = 3 * clock.DAY
EVENT_CLASSES = {
    kind.__name__: kind
    for kind in (
        payloads.PullMerged,
        payloads.PullClosed,
        payloads.PullReopened,
        payloads.AgentMentioned,
        payloads.ReviewSubmitted,
    )
}


@dataclass(frozen=True)
class PendingEvent:
    project_id: str
    id: str
    event: PullEvent
    attempts: int = 0


class Inbox:
    def __init__(self, database: Database) -> None:
        self.database = database

    def keep(self, project_id: str, event: PullEvent) -> PendingEvent | None:
        """Stores an event, unless it is there already. Returns None if the project has too many."""
        event_id = _identify(event)
        now = clock.now()
        row = {
            "project_id": project_id,
            "id": event_id,
            "event": {"kind": type(event).__name__, **asdict(event)},
            "received_at": now,
            "attempts": 0,
            "next_attempt_at": now + FIRST_DELAY_MILLISECONDS,
        }
        count_query = select(func.count()).where(pending_events.c.project_id == project_id)
        with self.database.write() as tx:
            if tx.execute(count_query).scalar_one() >= MAX_EVENTS_PER_PROJECT:
                return None
            insert_if_absent(tx, pending_events, row)
        return PendingEvent(project_id, event_id, event)

    def remove(self, pending: PendingEvent) -> None:
        with self.database.write() as tx:
            tx.execute(delete(pending_events).where(_is_event(pending)))

    def claim_due(self) -> list[PendingEvent]:
        """Returns events whose next attempt is due, and postpones them, so that no other process takes them too.

        Deletes events that could not be processed for days.
        """
        now = clock.now()
        query = select(pending_events).where(pending_events.c.next_attempt_at <= now)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(pending_events.c.next_attempt_at).limit(MAX_EVENTS_PER_ROUND)).all()
        claimed = []
        for row in rows:
            fields = dict(row.event)
            pending = PendingEvent(
                row.project_id, row.id, EVENT_CLASSES[fields.pop("kind")](**fields), row.attempts + 1
            )
            if row.received_at < now - RETENTION_MILLISECONDS:
                log.warning("gave up event %s of project %s after %d attempts", row.id, row.project_id, row.attempts)
                self.remove(pending)
            elif self._postpone(pending, row.attempts, now):
                claimed.append(pending)
        return claimed

    def _postpone(self, pending: PendingEvent, attempts: int, now: int) -> bool:
        """Sets the time of the next attempt. Returns False if another process took the event."""
        delay = min(MAX_DELAY_MILLISECONDS, 2 * FIRST_DELAY_MILLISECONDS << min(attempts, 20))
        values: dict[str, Any] = {"attempts": pending.attempts, "next_attempt_at": now + delay}
        is_unclaimed = and_(_is_event(pending), pending_events.c.attempts == attempts)
        with self.database.write() as tx:
            return bool(tx.execute(update(pending_events).where(is_unclaimed).values(values)).rowcount)


def _identify(event: PullEvent) -> str:
    """Returns an id that repeated deliveries of the event share."""
    return event.id if isinstance(event, AgentMentioned) else f"{type(event).__name__}-{event.number}"


def _is_event(pending: PendingEvent) -> ColumnElement[bool]:
    return and_(pending_events.c.project_id == pending.project_id, pending_events.c.id == pending.id)
