"""Everything about webhooks, created from the parts of the desk."""

from typing import NamedTuple

from sqlalchemy import func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.event_tables import event_deliveries
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.core.settings import Settings
from copydesk.jobs.execution.worker import PeriodicTask
from copydesk.webhooks import dispatcher
from copydesk.webhooks.delivery_log import DeliveryDetails, DeliveryLog
from copydesk.webhooks.dispatcher import Dispatcher, DispatcherOptions
from copydesk.webhooks.endpoints import Endpoints
from copydesk.webhooks.outbox import DeliveryOutbox

OWN_TEST_MS = 30 * clock.SECOND
"""For how long workers leave a test event to the process that sends it at once."""


class WebhookStats(NamedTuple):
    waiting: int
    """Deliveries that have not ended."""
    oldest_seconds: float
    """How long the oldest of them has waited."""


class Webhooks:
    def __init__(self, database: Database, settings: Settings, secrets: SealedSecrets) -> None:
        self.database = database
        self.endpoints = Endpoints(database, secrets, allow_private=settings.webhook_allow_private)
        self.log = DeliveryLog(database, self.endpoints)
        self.outbox = DeliveryOutbox(database)
        options = DispatcherOptions(
            base_url=settings.base_url,
            slots=settings.webhook_slots,
            log_days=settings.webhook_log_days,
            allow_private=settings.webhook_allow_private,
        )
        self.dispatcher = Dispatcher(self.outbox, secrets, options)

    def list_tasks(self) -> list[PeriodicTask]:
        """Returns what every worker does for webhooks, each in a thread of its own."""
        return [
            PeriodicTask("webhooks", dispatcher.TICK_SECONDS, self.dispatcher.tick),
            PeriodicTask("webhook log", dispatcher.SWEEP_SECONDS, self.dispatcher.sweep),
        ]

    def test_now(self, project_id: str, endpoint_id: str, *, actor: str) -> DeliveryDetails:
        """Sends a test event at once and returns what came of it. Takes up to the timeout of a delivery.

        If this process dies before that, a worker sends the event later."""
        delivery = self.log.send_test(project_id, endpoint_id, actor=actor, delay_ms=OWN_TEST_MS)
        self.dispatcher.send_now(delivery.id)
        return self.log.get(project_id, endpoint_id, delivery.id)

    def read_stats(self) -> WebhookStats:
        query = select(func.count(), func.min(event_deliveries.c.created_at))
        with self.database.read() as tx:
            waiting, oldest = tx.execute(query.where(event_deliveries.c.next_attempt_at.is_not(None))).one()
        return WebhookStats(waiting, 0.0 if oldest is None else max(0, clock.now() - oldest) / clock.SECOND)
