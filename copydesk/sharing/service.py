"""Everything that shares analytics, created from the parts of the desk."""

from copydesk.core.db.database import Database
from copydesk.core.settings import Settings
from copydesk.mail.outbox import Outbox
from copydesk.mail.sender import MailSender
from copydesk.mail.smtp import SmtpServer
from copydesk.sharing.share_links import ShareLinks


class Sharing:
    def __init__(self, database: Database, settings: Settings) -> None:
        self.links = ShareLinks(database)
        self.outbox = Outbox(database)
        self.mail_server = SmtpServer.from_settings(settings)
        self.mail_sender = MailSender(self.outbox, self.mail_server)
