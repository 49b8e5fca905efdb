"""Everything that shares analytics, created from the parts of the desk."""

from copydesk.core.db.database import Database
from copydesk.core.settings import Settings
from copydesk.jobs.execution.worker import PeriodicTask
from copydesk.mail import sender
from copydesk.mail.account_mails import AccountMails
from copydesk.mail.outbox import Outbox
from copydesk.mail.sender import MailSender
from copydesk.mail.smtp import SmtpServer
from copydesk.sharing import review_mails
from copydesk.sharing.review_mails import ReviewMails
from copydesk.sharing.share_links import ShareLinks
from copydesk.sharing.summary import weekly_summaries
from copydesk.sharing.summary.subscriptions import SummarySubscriptions
from copydesk.sharing.summary.weekly_summaries import NO_SENDER, SummarySources, WeeklySummaries


class Sharing:
    def __init__(self, database: Database, settings: Settings, sources: SummarySources) -> None:
        self.links = ShareLinks(database)
        self.outbox = Outbox(database)
        self.mail_server = SmtpServer.from_settings(settings)
        self.mail_sender = MailSender(self.outbox, self.mail_server)
        self.subscriptions = SummarySubscriptions(database, self.outbox)
        address = self.mail_server.sender if self.mail_server else NO_SENDER
        self.summaries = WeeklySummaries(database, self.subscriptions, self.outbox, sources, settings.base_url, address)

        self.account_mails = AccountMails(database, self.outbox, self.mail_server, settings.base_url)
        self.review_mails = ReviewMails(database, self.subscriptions, self.outbox, self.mail_server, settings.base_url)

    def list_tasks(self) -> list[PeriodicTask]:
        """Returns what every worker does for mail."""
        return [
            PeriodicTask("summaries", weekly_summaries.TICK_SECONDS, self.summaries.tick),
            PeriodicTask("review-mails", review_mails.TICK_SECONDS, self.review_mails.tick),
            PeriodicTask("mail", sender.TICK_SECONDS, self.mail_sender.tick),
        ]
