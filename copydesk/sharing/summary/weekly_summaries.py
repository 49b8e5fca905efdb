"""Queues the weekly summaries that are due: once per week over any number of servers, and at most one late one."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from copydesk.analytics.interactions.feedback import Feedback
from copydesk.analytics.stores.base import Store
from copydesk.automations.schedule import BadSchedule, find_last_slot, find_next_slot
from copydesk.automations.triggers.leases import TaskLease, read_database_clock
from copydesk.core.db.database import Database
from copydesk.core.errors import ProjectNotFound, StoreUnavailable
from copydesk.core.projects.event_tables import webhook_endpoints
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.project_events import EventType, has_listener, record_event
from copydesk.core.projects.projects import Project, Projects
from copydesk.mail.outbox import NewMail, Outbox
from copydesk.sharing.summary.subscriptions import MONDAY_MORNING, Subscriber, SummarySchedule, SummarySubscriptions
from copydesk.sharing.summary.summary_event import describe_report
from copydesk.sharing.summary.summary_mail import SummaryText, write_summary
from copydesk.sharing.summary.week_report import WeekReport, build_week_report, find_week
from copydesk.sharing.tables import summary_schedules

log = logging.getLogger(__name__)

TICK_SECONDS = 60.0
NO_SENDER = ""


class SummarySources(NamedTuple):
    """What the numbers come from. `get_store` returns the store after it has counted all views so far."""

    projects: Projects
    feedback: Feedback
    get_store: Callable[[Project], Store]


class WeeklySummaries:
    """The lease saves work; that a summary goes out once rests on the schedule's row and on the key of each mail."""

    def __init__(
        self,
        database: Database,
        subscriptions: SummarySubscriptions,
        outbox: Outbox,
        sources: SummarySources,
        base_url: str,
        sender: str,
    ) -> None:
        """An empty `sender` means that no mail server is configured: then summaries go only to webhooks."""
        self.database = database
        self.subscriptions = subscriptions
        self.outbox = outbox
        self.sources = sources
        self.base_url = base_url
        self.sender = sender
        self.lease = TaskLease(database, "summaries")

    def tick(self) -> None:
        """Queues what is due, if this process holds or gets the lease."""
        if self.lease.acquire():
            self.queue_due_summaries()

    def queue_due_summaries(self) -> None:
        self._plan_for_webhooks()
        with self.database.read() as tx:
            now = read_database_clock(self.database, tx)
            due = tx.execute(select(summary_schedules).where(summary_schedules.c.next_slot_at <= now)).all()
        for row in due:
            try:
                self._queue_summary(SummarySchedule(*row), now)
            except StoreUnavailable:
                raise
            except ProjectNotFound:
                continue
            except BadSchedule as error:  # the time zone no longer exists
                log.warning("the summary of project %s has no valid time zone: %s", row.project_id, error)
            except Exception:  # an error of one project must not stop the others
                log.exception("the summary of project %s could not be queued", row.project_id)

    def build_report(self, project: Project, at: int) -> WeekReport:
        """Returns the numbers of the last seven days that are complete at this time."""
        sources = self.sources
        return build_week_report(self.database, sources.get_store(project), sources.feedback, project, find_week(at))

    def write(self, report: WeekReport, subscriber: Subscriber | None) -> SummaryText:
        """Returns the mail for a subscriber, or a preview without a link that ends a subscription."""
        url = self.build_unsubscribe_url(subscriber) if subscriber else ""
        return write_summary(report, self.base_url, url)

    def build_unsubscribe_url(self, subscriber: Subscriber) -> str:
        return f"{self.base_url}/unsubscribe/{subscriber.token}"

    def _queue_summary(self, schedule: SummarySchedule, now: int) -> None:
        """Queues the mails of the last slot and plans the next one, in one transaction. Earlier slots are skipped."""
        slot = find_last_slot(MONDAY_MORNING, schedule.timezone, schedule.next_slot_at, now)
        next_slot = find_next_slot(MONDAY_MORNING, schedule.timezone, now)
        project = self.sources.projects.get(schedule.project_id)
        has_mail = self.sender != NO_SENDER
        has_webhook = has_listener(self.database, project.id, EventType.SUMMARY_WEEKLY)
        if not has_mail and not has_webhook:
            return
        has_readers = has_webhook or bool(self.subscriptions.list_recipients(project.id))
        report = self.build_report(project, slot) if has_readers else None
        is_unchanged = (summary_schedules.c.project_id == project.id) & (
            summary_schedules.c.next_slot_at == schedule.next_slot_at
        )
        recipients = self.subscriptions.list_recipients(project.id) if has_mail else []
        with self.database.write() as tx:
            plan = update(summary_schedules).where(is_unchanged).values(next_slot_at=next_slot)
            if not tx.execute(plan).rowcount:
                return  # another server was faster, or a person changed the time zone
            if report is not None:
                week = report
                record_event(
                    self.database,
                    tx,
                    project.id,
                    EventType.SUMMARY_WEEKLY,
                    project.id,
                    lambda: describe_report(week),
                )
                for subscriber in recipients:
                    self._enqueue(tx, report, subscriber, slot)

    def _plan_for_webhooks(self) -> None:
        """Plans summaries of projects whose webhooks want them. Without subscribers, they have no schedule yet."""
        unplanned = webhook_endpoints.c.project_id.not_in(select(summary_schedules.c.project_id))
        query = select(webhook_endpoints.c.project_id, webhook_endpoints.c.events).where(unplanned)
        with self.database.read() as tx:
            rows = tx.execute(query.where(webhook_endpoints.c.enabled)).all()
        for project_id in {row.project_id for row in rows if EventType.SUMMARY_WEEKLY in row.events}:
            with suppress(ProjectNotFound), refuse_missing_project(self.database, project_id):
                self.subscriptions.ensure_schedule(project_id)

    def _enqueue(self, tx: Connection, report: WeekReport, subscriber: Subscriber, slot: int) -> None:
        summary = self.write(report, subscriber)
        headers = {
            "List-Unsubscribe": f"<{self.build_unsubscribe_url(subscriber)}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "List-Id": f"<weekly.{report.project.id.replace('_', '-')}.copydesk>",
        }
        key = f"summary:{subscriber.id}:{slot}"
        owner, project_id = subscriber.id, report.project.id
        mail = NewMail(key, project_id, owner, subscriber.email, summary.subject, summary.text, summary.html, headers)
        self.outbox.enqueue(tx, mail, self.sender)
