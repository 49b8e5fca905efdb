"""Reminds people by mail of an automation's pull request that has waited long for a review: once for each."""

from sqlalchemy import Row, select

from copydesk.automations.triggers.leases import TaskLease
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.job import COMPLETED, FAILED
from copydesk.jobs.storage.tables import jobs, review_waits
from copydesk.mail.link_mail import LinkMail, write_link_mail
from copydesk.mail.outbox import NewMail, Outbox
from copydesk.mail.smtp import SmtpServer
from copydesk.sharing.summary.subscriptions import Subscriber, SummarySubscriptions

TICK_SECONDS = 300.0
MAX_MENTION_AGE_MS = 7 * clock.DAY
"""Older mentions are not mailed. Shorter than the outbox keeps the key of a mail, so that none is sent twice."""
SELECT_WAITING = (
    select(
        review_waits.c.job_id, review_waits.c.waiting_since,
        jobs.c.title, jobs.c.prompt, jobs.c.pr_link, jobs.c.project_id, projects.c.name,
    )
    .join(jobs, jobs.c.id == review_waits.c.job_id)
    .join(projects, projects.c.id == jobs.c.project_id)
    .where(jobs.c.pull_state == "open", jobs.c.status.in_((COMPLETED, FAILED)))
)  # fmt: skip


class ReviewMails:
    """Writes to people with an account who get the weekly summary of the project: they asked for mail about it."""

    def __init__(
        self,
        database: Database,
        subscriptions: SummarySubscriptions,
        outbox: Outbox,
        server: SmtpServer | None,
        base_url: str,
    ) -> None:
        self.database = database
        self.subscriptions = subscriptions
        self.outbox = outbox
        self.server = server
        self.base_url = base_url
        self.lease = TaskLease(database, "review-mails")

    def tick(self) -> None:
        if self.server is not None and self.lease.acquire():
            self.queue_reminders(self.server)

    def queue_reminders(self, server: SmtpServer) -> None:
        """Queues a mail for each mentioned pull request and recipient. The key of the mail makes it the only one."""
        is_recent = review_waits.c.mentioned_at > clock.now() - MAX_MENTION_AGE_MS
        with self.database.read() as tx:
            waiting = tx.execute(SELECT_WAITING.where(is_recent)).all()
        for row in waiting:
            recipients = self.subscriptions.list_recipients(row.project_id)
            mails = [self._write(row, each) for each in recipients if each.person_id is not None]
            with self.database.write() as tx:
                for mail in mails:
                    self.outbox.enqueue(tx, mail, server.sender)

    def _write(self, row: Row[*tuple[object, ...]], subscriber: Subscriber) -> NewMail:
        job_id, project_id, name = str(row.job_id), str(row.project_id), str(row.name)
        days = (clock.now() - row.waiting_since) // clock.DAY
        title = str(row.title or row.prompt)
        unsubscribe_url = f"{self.base_url}/unsubscribe/{subscriber.token}"
        mail = LinkMail(
            subject=f"{name}: a pull request waits for a review",
            heading="A pull request waits for a review",
            lines=(
                f"“{title}” in {name} has waited for {pluralize(days, 'day')}.",
                "Merge it, close it, or say in a comment what is missing.",
            ),
            button="Open the job",
            url=f"{self.base_url}/projects/{project_id}/jobs/{job_id}",
            notes=(f"You get this mail once, because you get the weekly summary of {name}.",),
            unsubscribe_url=unsubscribe_url,
        )
        body = write_link_mail(mail)
        headers = {
            "List-Unsubscribe": f"<{unsubscribe_url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }
        key = f"review:{subscriber.id}:{job_id}"
        return NewMail(key, project_id, subscriber.id, subscriber.email, mail.subject, body.text, body.html, headers)
