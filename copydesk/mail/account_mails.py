"""Sends invitations and password links by mail. Without a mail server, nothing is queued."""

from urllib.parse import urlsplit

from copydesk.core.accounts.person import NO_ROLE, Person
from copydesk.core.db.database import Database
from copydesk.core.ids import sha256_hex
from copydesk.mail.link_mail import LinkMail, write_link_mail
from copydesk.mail.outbox import NewMail, Outbox
from copydesk.mail.smtp import SmtpServer

NOT_EXPECTED = "If you did not expect this mail, you can ignore it."


class AccountMails:
    def __init__(self, database: Database, outbox: Outbox, server: SmtpServer | None, base_url: str) -> None:
        self.database = database
        self.outbox = outbox
        self.server = server
        self.base_url = base_url

    @property
    def is_enabled(self) -> bool:
        return self.server is not None

    def send_invitation(self, email: str, role: str, secret: str, *, actor: str, project_name: str = "") -> bool:
        """Queues the mail with an invitation, to all projects or to the named one. Returns False without a mail server.

        The role NO_ROLE is left out: the person gets projects later."""
        service = f"the documentation service at {urlsplit(self.base_url).netloc}"
        as_role = "" if role == NO_ROLE else f" as {role}"
        place = f"the project “{project_name}” in {service}" if project_name else service
        mail = LinkMail(
            subject=f"{actor} invited you to Copydesk",
            heading="You are invited to Copydesk",
            lines=(f"{actor} invited you{as_role} to {place}.",),
            button="Create your account",
            url=self.build_link(secret),
            notes=("The link works once and expires after 7 days.", NOT_EXPECTED),
        )
        return self._queue(email, secret, mail)

    def send_admin_reset(self, person: Person, secret: str, *, actor: str) -> bool:
        """Queues the mail with a password link that an administrator created."""
        return self._queue_reset(person, secret, f"{actor} created a password link for {person.email}.", "7 days")

    def send_requested_reset(self, person: Person, secret: str) -> bool:
        """Queues the mail with a password link that was requested on the sign-in page."""
        reason = f"A new password was requested for {person.email}."
        return self._queue_reset(person, secret, reason, "one hour")

    def cancel(self, email: str) -> None:
        """Deletes the mails to this address that were not sent yet: their links no longer work."""
        with self.database.write() as tx:
            self.outbox.cancel(tx, _owner(email))

    def build_link(self, secret: str) -> str:
        return f"{self.base_url}/join/{secret}"

    def _queue_reset(self, person: Person, secret: str, reason: str, lifetime: str) -> bool:
        mail = LinkMail(
            subject="Set a new password for Copydesk",
            heading="Set a new password",
            lines=(reason, "A new password ends all your sessions."),
            button="Set a new password",
            url=self.build_link(secret),
            notes=(
                f"The link works once and expires after {lifetime}.",
                f"{NOT_EXPECTED} Your password stays as it is.",
            ),
        )
        return self._queue(person.email, secret, mail)

    def _queue(self, email: str, secret: str, mail: LinkMail) -> bool:
        """Queues the mail in place of earlier ones to the same address."""
        if self.server is None:
            return False
        body = write_link_mail(mail)
        key, owner = f"link:{sha256_hex(secret)}", _owner(email)
        new_mail = NewMail(key, None, owner, email, mail.subject, body.text, body.html, {})
        with self.database.write() as tx:
            self.outbox.cancel(tx, owner)
            return self.outbox.enqueue(tx, new_mail, self.server.sender)


def _owner(email: str) -> str:
    return f"account:{sha256_hex(email)[:32]}"
