"""The scheduler: every worker has one; the one that holds the lease fires the schedules that are due."""

import logging
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from copydesk.automations.automation import TriggerEvent
from copydesk.automations.definition import AutomationDefinition, ScheduleTrigger
from copydesk.automations.firing import AutomationFiring
from copydesk.automations.schedule import BadSchedule, find_last_slot, find_next_slot
from copydesk.automations.tables import automations
from copydesk.automations.triggers.leases import TaskLease, read_database_clock
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import ProjectNotFound, StoreUnavailable

log = logging.getLogger(__name__)

TICK_SECONDS = 15.0
SELECT_DUE = (
    select(automations)
    .where(
        automations.c.enabled, automations.c.trigger_type == "schedule", automations.c.next_slot_at <= bindparam("now")
    )
    .order_by(automations.c.next_slot_at, automations.c.id)
)


class Scheduler:
    """Fires schedules. The lease saves work; that a slot fires once rests on the key of its run."""

    def __init__(self, database: Database, firing: AutomationFiring) -> None:
        self.database = database
        self.firing = firing
        self.lease = TaskLease(database, "schedules")

    def tick(self) -> None:
        """Fires what is due, if this process holds or gets the lease."""
        if self.lease.acquire():
            self.fire_due_schedules()

    def fire_due_schedules(self) -> None:
        """Fires each due schedule once, for its last slot. Slots before it, from a downtime, are skipped."""
        with self.database.read() as tx:
            now = read_database_clock(self.database, tx)
            due = tx.execute(SELECT_DUE, {"now": now}).all()
        for row in due:
            try:
                self._fire_slot(row, now)
            except StoreUnavailable:
                raise
            except ProjectNotFound:
                continue
            except Exception:  # an error of one automation must not stop the others
                log.exception("automation %s could not be run", row.id)

    def _fire_slot(self, row: Row[Any], now: int) -> None:
        trigger = AutomationDefinition.from_stored(row.definition).trigger
        assert isinstance(trigger, ScheduleTrigger)
        try:
            slot = find_last_slot(trigger.cron, trigger.timezone, row.next_slot_at, now)
            next_slot = find_next_slot(trigger.cron, trigger.timezone, now)
        except BadSchedule as error:  # the time zone no longer exists
            log.warning("automation %s has no valid schedule: %s", row.id, error)
            return
        event = TriggerEvent(f"slot:{slot}", describe_slot(slot, trigger), {"type": "schedule", "slot": slot})

        def plan_next_slot(tx: Connection) -> None:
            """Stores the next slot, unless a person changed the schedule meanwhile."""
            is_unchanged = (automations.c.id == row.id) & (automations.c.next_slot_at == row.next_slot_at)
            tx.execute(update(automations).where(is_unchanged).values(next_slot_at=next_slot))

        project = self.firing.projects.get(row.project_id)
        self.firing.fire(project, row.id, event, then=plan_next_slot)


def describe_slot(slot: int, trigger: ScheduleTrigger) -> str:
    return f"Scheduled for {clock.format_iso(slot)[:16].replace('T', ' ')} UTC ({trigger.cron}, {trigger.timezone})."
