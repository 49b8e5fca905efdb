"""Sends the mails of the outbox. Every worker has a sender; each mail is claimed by one of them."""

import logging

from copydesk.mail.message import build_message
from copydesk.mail.outbox import ClaimedMail, Outbox
from copydesk.mail.smtp import MailFailed, MailServerUnusable, SmtpServer

log = logging.getLogger(__name__)

TICK_SECONDS = 15.0
MAX_MAILS_PER_TICK = 100


class MailSender:
    def __init__(self, outbox: Outbox, server: SmtpServer | None) -> None:
        """Without a server, nothing is sent."""
        self.outbox = outbox
        self.server = server

    def tick(self) -> None:
        """Sends the mails that are due. Stops at once if the server is unusable, so that each tick asks it once."""
        if self.server is None:
            return
        for _ in range(MAX_MAILS_PER_TICK):
            mail = self.outbox.claim_next()
            if mail is None or not self._send(self.server, mail):
                break
        self.outbox.delete_old()

    def _send(self, server: SmtpServer, mail: ClaimedMail) -> bool:
        """Sends one mail and records the result. Returns False if the server is unusable."""
        try:
            message = build_message(mail.content, server.sender)
        except Exception as error:  # a message that cannot be built must not stop the others
            log.exception("mail %s cannot be built", mail.id)
            self.outbox.record_failure(mail, f"The mail cannot be built: {type(error).__name__}.", is_permanent=True)
            return True
        try:
            server.send(message, mail.content.recipient)
        except MailFailed as error:
            will_retry = self.outbox.record_failure(mail, error.message, is_permanent=error.is_permanent)
            log.warning("mail %s was not sent%s: %s", mail.id, "" if will_retry else " and is given up", error.message)
            return not isinstance(error, MailServerUnusable)
        self.outbox.record_sent(mail)
        return True
