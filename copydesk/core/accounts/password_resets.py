"""Links that people request when they forgot their password. The caller learns nothing about which accounts exist."""

from typing import NamedTuple

from sqlalchemy import select

from copydesk.core import clock
from copydesk.core.accounts.people import People
from copydesk.core.accounts.person import PERSON_COLUMNS, Person, person_from_row, validate_email
from copydesk.core.accounts.sign_in_limits import client_network, delete_old_attempts
from copydesk.core.db.tables import people
from copydesk.core.ids import sha256_hex
from copydesk.core.rate_limits.limits import RateLimit, consume

RESET_LIFETIME_MS = 60 * 60 * clock.SECOND
HOUR_MS = 60 * 60 * clock.SECOND
RESET_LIMIT_PER_PERSON = RateLimit("reset", 3, HOUR_MS)
RESET_LIMIT_PER_ADDRESS = RateLimit("reset-address", 20, HOUR_MS)


class ResetLink(NamedTuple):
    person: Person
    secret: str


class PasswordResets:
    def __init__(self, people: People) -> None:
        self.people = people

    def count_request(self, email: str, address: str | None) -> str:
        """Counts a request, whether or not the account exists. Returns the address in its stored form.

        Raises InvalidRequest for text that is no email address, and TooManyRequests.
        """
        email = validate_email(email)
        database = self.people.database
        with database.write() as tx:
            delete_old_attempts(tx, RESET_LIMIT_PER_ADDRESS, RESET_LIMIT_PER_PERSON)
            consume(database, tx, RESET_LIMIT_PER_ADDRESS, client_network(address))
            consume(database, tx, RESET_LIMIT_PER_PERSON, sha256_hex(email))
        return email

    def create_link(self, email: str) -> ResetLink | None:
        """Creates a link that works once within an hour; None if no account with a password has this address.

        A person who signs in with the identity provider gets none: it would let them in without the provider.
        """
        query = select(*PERSON_COLUMNS).where(people.c.email == email, people.c.password.is_not(None))
        with self.people.database.read() as tx:
            row = tx.execute(query).first()
        if row is None:
            return None
        person = person_from_row(row)
        secret = self.people.create_reset_link(person, actor=person.email, lifetime_ms=RESET_LIFETIME_MS)
        return ResetLink(person, secret)
