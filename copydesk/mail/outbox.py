"""The outbox: mails are stored in the transaction that decides to send them, and each is sent by one server.

A mail is sent at least once: a server that dies between the mail server's reply and its own record sends it again, with
the same Message-ID. Otherwise it is sent once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, delete, or_, select, text, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.ids import new_id
from copydesk.mail.message import MailContent, format_message_id
from copydesk.mail.tables import mails

MINUTE = 60 * clock.SECOND
LEASE_MS = 10 * MINUTE
"""Longer than a delivery can take."""
RETRY_DELAYS_MS = tuple(minutes * MINUTE for minutes in (1, 5, 15, 30, 60, 120, 240))
"""The waiting time after each attempt; the last one repeats."""
GIVE_UP_MS = clock.DAY
KEPT_MS = 30 * clock.DAY
"""How long the record of a mail is kept after it was sent or given up."""
ERASED = {"subject": "", "text": "", "html": "", "headers": {}}
CLAIM_SQL = """
    update mails set lease_until = {now} + :lease, attempts = attempts + 1
    where id = :id and next_attempt_at <= {now} and (lease_until <= {now} or lease_until > {now} + 2 * :lease)
    returning lease_until
"""


class NewMail(NamedTuple):
    key: str
    """Names what the mail is about: there is at most one mail with this key."""
    project_id: str | None
    """None for mails about an account."""
    owner: str
    recipient: str
    subject: str
    text: str
    html: str
    headers: Mapping[str, str]


class ClaimedMail(NamedTuple):
    id: str
    content: MailContent
    attempts: int
    lease_until: int


class Outbox:
    def __init__(self, database: Database) -> None:
        self.database = database
        self._claim = text(CLAIM_SQL.format(now=database.clock_sql))

    def enqueue(self, tx: Connection, mail: NewMail, sender: str) -> bool:
        """Stores a mail in the caller's transaction. Returns False if a mail with its key exists."""
        mail_id, now = new_id("mail"), clock.now()
        row = {
            **mail._asdict(),
            "headers": dict(mail.headers),
            "id": mail_id,
            "message_id": format_message_id(mail_id, sender),
            "created_at": now,
            "attempts": 0,
            "next_attempt_at": now,
            "lease_until": 0,
        }
        return insert_if_absent(tx, mails, row)

    def claim_next(self) -> ClaimedMail | None:
        """Returns a mail that is due, and that no other server sends while the lease lasts; None if there is none."""
        while True:
            with self.database.write() as tx:
                now: int = tx.execute(select(self.database.now)).scalar_one()
                is_free = or_(mails.c.lease_until <= now, mails.c.lease_until > now + 2 * LEASE_MS)
                is_due = and_(mails.c.next_attempt_at <= now, is_free)
                query = select(mails.c.id).where(is_due).order_by(mails.c.next_attempt_at, mails.c.id).limit(1)
                mail_id = tx.execute(query).scalar()
                if mail_id is None:
                    return None
                lease_until = tx.execute(self._claim, {"id": mail_id, "lease": LEASE_MS}).scalar()
                if lease_until is not None:
                    return _mail_from_row(tx.execute(select(mails).where(mails.c.id == mail_id)).one())

    def record_sent(self, mail: ClaimedMail) -> bool:
        """Records that the mail server has taken the mail. Returns False if another server has the mail by now."""
        return self._finish(mail, sent_at=clock.now(), error=None)

    def record_failure(self, mail: ClaimedMail, reason: str, *, is_permanent: bool) -> bool:
        """Records a failed attempt. Returns whether the mail will be tried again."""
        now = clock.now()
        delay = RETRY_DELAYS_MS[min(mail.attempts, len(RETRY_DELAYS_MS)) - 1]
        if is_permanent or now + delay > mail.content.created_at + GIVE_UP_MS:
            self._finish(mail, failed_at=now, error=reason)
            return False
        with self.database.write() as tx:
            values = {"next_attempt_at": now + delay, "lease_until": 0, "error": reason}
            tx.execute(update(mails).where(_is_claim(mail)).values(values))
        return True

    def cancel(self, tx: Connection, owner: str) -> int:
        """Deletes the mails of a subscription or an address that were not sent yet. Returns how many."""
        return tx.execute(delete(mails).where(mails.c.owner == owner, mails.c.next_attempt_at.is_not(None))).rowcount

    def delete_old(self) -> None:
        """Deletes records of mails that were sent or given up long ago."""
        before = clock.now() - KEPT_MS
        is_old = mails.c.next_attempt_at.is_(None) & (mails.c.created_at < before)
        with self.database.write() as tx:
            tx.execute(delete(mails).where(is_old))

    def count_waiting(self) -> int:
        with self.database.read() as tx:
            return len(tx.execute(select(mails.c.id).where(mails.c.next_attempt_at.is_not(None))).all())

    def _finish(self, mail: ClaimedMail, **values: Any) -> bool:
        """Ends a mail, and deletes its text, which is no longer needed."""
        with self.database.write() as tx:
            done = {**values, **ERASED, "next_attempt_at": None, "lease_until": 0}
            return bool(tx.execute(update(mails).where(_is_claim(mail)).values(done)).rowcount)


def _is_claim(mail: ClaimedMail) -> Any:
    return and_(mails.c.id == mail.id, mails.c.lease_until == mail.lease_until)


def _mail_from_row(row: Row[Any]) -> ClaimedMail:
    content = MailContent(row.recipient, row.subject, row.text, row.html, row.headers, row.message_id, row.created_at)
    return ClaimedMail(row.id, content, row.attempts, row.lease_until)
