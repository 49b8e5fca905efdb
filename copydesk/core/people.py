"""People who sign in to the dashboard: accounts, roles, invitations and sessions. Secrets are stored as digests."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from copydesk.core import audit, clock
from copydesk.core.database import Database
from copydesk.core.errors import Conflict, InvalidRequest, NotFound, Refusal
from copydesk.core.ids import new_id, random_text
from copydesk.core.keys import Keys
from copydesk.core.limits import Limit, take
from copydesk.core.tables import invitations, people, sessions

if TYPE_CHECKING:
    from argon2 import PasswordHasher

ROLES = ("viewer", "editor", "admin")
"""Each may do what those before it may: look; start and steer jobs; change projects, keys and people."""
SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1000
SESSION, SEEN_EVERY = 30 * clock.DAY, 60 * clock.SECOND
INVITATION = 7 * clock.DAY
SYSTEM = "copydesk"
EVERYWHERE = ""
"""The project of audit entries that belong to none."""
PER_PERSON, PER_ADDRESS = Limit("sign-in", 10, 15 * 60_000), Limit("sign-in-address", 50, 15 * 60_000)
EMAIL = re.compile(r"[^\s<>@,;\"']{1,100}@[^\s<>@,;\"']{1,90}")


class WrongPassword(Refusal):
    """The address or the password is wrong."""

    status, code = 401, "wrong_password"


class InvitationGone(NotFound):
    """This link was used before, has expired, or never was; ask an administrator for another."""

    code = "invitation_gone"


class PersonNotFound(NotFound):
    """There is no such person."""

    code = "person_not_found"


class LastAdmin(Conflict):
    """Somebody must stay an administrator; make another one first."""

    code = "last_admin"


@dataclass(frozen=True)
class Person:
    id: str
    email: str
    name: str
    role: str
    created_at: int

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True)
class Session:
    id: str
    person_id: str
    created_at: int
    seen_at: int
    expires_at: int
    address: str | None
    agent: str


@dataclass(frozen=True)
class Invitation:
    email: str
    """Empty when whoever has the link may choose."""
    role: str
    created_at: int
    created_by: str
    expires_at: int


PERSON = [people.c[field.name] for field in fields(Person)]
SESSION_FIELDS = [sessions.c[field.name] for field in fields(Session)]
INVITED = [invitations.c[field.name] for field in fields(Invitation)]


class People:
    def __init__(self, database: Database, keys: Keys) -> None:
        self.database, self._keys = database, keys

    def all(self) -> list[Person]:
        with self.database.read() as tx:
            return [_person(row) for row in tx.execute(select(*PERSON).order_by(people.c.email))]

    def get(self, person_id: str) -> Person:
        with self.database.read() as tx:
            row = tx.execute(select(*PERSON).where(people.c.id == person_id)).first()
        if row is None:
            raise PersonNotFound
        return _person(row)

    def first_link(self) -> str | None:
        """The secret of a link by which the first person becomes administrator; None once there is somebody."""
        with self.database.write() as tx:
            if tx.execute(select(func.count()).select_from(people)).scalar_one():
                return None
            tx.execute(delete(invitations).where(invitations.c.created_by == SYSTEM))
            return _invite(tx, "", "admin", SYSTEM)

    def invite(self, email: str, role: str, *, actor: str) -> str:
        """The secret of a link, which can be used once."""
        email, role = checked_email(email), checked_role(role)
        with self.database.write() as tx:
            if tx.execute(select(people.c.id).where(people.c.email == email)).first():
                raise InvalidRequest(f"{email} has an account already.")
            tx.execute(delete(invitations).where(invitations.c.email == email))
            secret = _invite(tx, email, role, actor)
            audit.record(tx, EVERYWHERE, actor, "person.invited", email, role=role)
        return secret

    def invitations(self) -> list[Invitation]:
        """Those that people wait for; the link of the first start is nobody's."""
        wanted = select(*INVITED).where(invitations.c.email != "", invitations.c.expires_at > clock.now())
        with self.database.read() as tx:
            return [Invitation(**row._mapping) for row in tx.execute(wanted.order_by(invitations.c.email))]

    def withdraw(self, email: str, *, actor: str) -> None:
        with self.database.write() as tx:
            mine = (invitations.c.email == email) & (invitations.c.email != "")
            if tx.execute(delete(invitations).where(mine)).rowcount:
                audit.record(tx, EVERYWHERE, actor, "person.invitation_withdrawn", email)

    def invited(self, secret: str) -> Invitation:
        with self.database.read() as tx:
            return _invited(tx, secret)

    def accept(self, secret: str, email: str, name: str, password: str) -> Person:
        """Makes the account that the link is for, and uses it up."""
        hashed = hasher().hash(checked_password(password))
        with self.database.write() as tx:
            found = _invited(tx, secret)
            tx.execute(delete(invitations).where(invitations.c.digest == _digest(secret)))
            return self._add(tx, found.email or email, name, found.role, password=hashed)

    def sign_in(self, email: str, password: str, address: str | None) -> Person:
        """Failures are counted before the password is looked at, so that many guesses at once are no way around."""
        email = email.strip().lower()[:200]
        with self.database.write() as tx:
            take(self.database, tx, PER_ADDRESS, address or "unknown")
            take(self.database, tx, PER_PERSON, _digest(email)[:32])
        with self.database.read() as tx:
            row = tx.execute(select(*PERSON, people.c.password).where(people.c.email == email)).first()
        known = row.password if row is not None and row.password else _nobodys_password()
        if not _is_password(known, password) or row is None or not row.password:
            raise WrongPassword
        return Person(**{field.name: row._mapping[field.name] for field in fields(Person)})

    def signed_in_by(self, subject: str, email: str, name: str, role: str) -> Person:
        """Whom an identity provider vouches for: known by the provider's id, else by a verified address, else new."""
        email = checked_email(email)
        with self.database.write() as tx:
            row = tx.execute(select(*PERSON).where(people.c.subject == subject)).first()
            if row is None:
                row = tx.execute(select(*PERSON).where(people.c.email == email)).first()
                if row is None:
                    return self._add(tx, email, name, checked_role(role), subject=subject)
                tx.execute(update(people).where(people.c.id == row.id).values(subject=subject))
            return _person(row)

    def begin(self, person: Person, address: str | None, agent: str) -> str:
        """A session's secret, for the browser alone."""
        secret, now = random_text(43), clock.now()
        row = {
            "id": new_id("sess"),
            "digest": _digest(secret),
            "person_id": person.id,
            "created_at": now,
            "seen_at": now,
            "expires_at": now + SESSION,
            "address": address,
            "agent": agent[:400],
        }
        with self.database.write() as tx:
            tx.execute(delete(sessions).where(sessions.c.expires_at < now))
            tx.execute(insert(sessions).values(row))
            audit.record(tx, EVERYWHERE, person.email, "person.signed_in", person.id)
        return secret

    def of_session(self, secret: str) -> tuple[Person, Session] | None:
        wanted = select(*(column.label(f"person_{column.name}") for column in PERSON), *SESSION_FIELDS)
        joined = wanted.join(people, people.c.id == sessions.c.person_id).where(sessions.c.digest == _digest(secret))
        with self.database.read() as tx:
            row = tx.execute(joined).first()
        now = clock.now()
        if row is None or row.expires_at < now:
            return None
        values = row._mapping
        session = Session(**{column.name: values[column.name] for column in SESSION_FIELDS})
        if session.seen_at + SEEN_EVERY < now:
            with self.database.write() as tx:
                tx.execute(update(sessions).where(sessions.c.id == session.id).values(seen_at=now))
        return Person(**{column.name: values[f"person_{column.name}"] for column in PERSON}), session

    def sessions(self, person_id: str) -> list[Session]:
        """Newest first."""
        mine = (sessions.c.person_id == person_id) & (sessions.c.expires_at > clock.now())
        with self.database.read() as tx:
            rows = tx.execute(select(*SESSION_FIELDS).where(mine).order_by(sessions.c.id.desc()))
            return [Session(**row._mapping) for row in rows]

    def end_session(self, person: Person, session_id: str) -> None:
        """One's own; another's is as good as not there."""
        with self.database.write() as tx:
            gone = delete(sessions).where(sessions.c.id == session_id, sessions.c.person_id == person.id)
            if tx.execute(gone).rowcount:
                audit.record(tx, EVERYWHERE, person.email, "person.session_ended", session_id)

    def change_password(self, person: Person, old: str, new: str, keep: str) -> None:
        """Ends all other sessions: whoever has the old password may be in one of them."""
        with self.database.read() as tx:
            known = tx.execute(select(people.c.password).where(people.c.id == person.id)).scalar_one()
        if known and not _is_password(known, old):
            raise WrongPassword("The present password is wrong.")
        hashed = hasher().hash(checked_password(new))
        with self.database.write() as tx:
            tx.execute(update(people).where(people.c.id == person.id).values(password=hashed))
            tx.execute(delete(sessions).where(sessions.c.person_id == person.id, sessions.c.id != keep))
            audit.record(tx, EVERYWHERE, person.email, "person.password_changed", person.id)

    def change_role(self, person_id: str, role: str, *, actor: str) -> None:
        role = checked_role(role)
        with self.database.write() as tx:
            person = self._held(tx, person_id)
            if person.role == "admin" and role != "admin":
                _leave_an_admin(tx)
            tx.execute(update(people).where(people.c.id == person_id).values(role=role))
            audit.record(tx, EVERYWHERE, actor, "person.role_changed", person.email, role=role)

    def remove(self, person_id: str, *, actor: str) -> int:
        """Ends their sessions and revokes the keys they made. How many keys that were."""
        with self.database.write() as tx:
            person = self._held(tx, person_id)
            if person.role == "admin":
                _leave_an_admin(tx)
            tx.execute(delete(sessions).where(sessions.c.person_id == person_id))
            tx.execute(delete(people).where(people.c.id == person_id))
            revoked = self._keys.revoke_made_by(tx, person.email, actor=actor)
            audit.record(tx, EVERYWHERE, actor, "person.removed", person.email, keys=revoked)
        return revoked

    def _held(self, tx: Connection, person_id: str) -> Person:
        """While this transaction lasts, nobody else changes who is an administrator."""
        wanted = select(*PERSON).order_by(people.c.id)
        rows = tx.execute(wanted if self.database.is_sqlite else wanted.with_for_update()).all()
        found = next((_person(row) for row in rows if row.id == person_id), None)
        if found is None:
            raise PersonNotFound
        return found

    def _add(
        self,
        tx: Connection,
        email: str,
        name: str,
        role: str,
        *,
        password: str | None = None,
        subject: str | None = None,
    ) -> Person:
        email = checked_email(email)
        if tx.execute(select(people.c.id).where(people.c.email == email)).first():
            raise InvalidRequest(f"{email} has an account already.")
        person = Person(new_id("pers"), email, checked_name(name or email), role, clock.now())
        tx.execute(insert(people).values({**vars(person), "password": password, "subject": subject}))
        audit.record(tx, EVERYWHERE, email, "person.joined", person.id, role=role)
        return person


def checked_email(text: str) -> str:
    """Lower case throughout: nobody has two accounts that differ in that alone."""
    email = text.strip().lower()
    if not EMAIL.fullmatch(email) or not email.isprintable():
        raise InvalidRequest("Give an e-mail address, such as ada@example.org.")
    return email


def checked_name(text: str) -> str:
    name = text.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise InvalidRequest("A name has 1 to 200 printable characters.")
    return name


def checked_role(role: str) -> str:
    if role not in ROLES:
        raise InvalidRequest(f"A role is one of {', '.join(ROLES)}.")
    return role


def checked_password(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidRequest(f"A password has at least {SHORTEST_PASSWORD} characters.")
    return password


@cache
def hasher() -> "PasswordHasher":
    """Argon2id with the library's own cost, about 50 ms and 64 MB; loaded when first needed."""
    from argon2 import PasswordHasher

    return PasswordHasher()


def _is_password(hashed: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    if len(password) > LONGEST_PASSWORD:
        return False
    try:
        return hasher().verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys_password() -> str:
    """Looked at for addresses that have no account, so that the time does not tell which have one."""
    return hasher().hash(secrets.token_hex(16))


def _invite(tx: Connection, email: str, role: str, actor: str) -> str:
    secret, now = random_text(32), clock.now()
    row = {"digest": _digest(secret), "email": email, "role": role, "created_at": now, "created_by": actor}
    tx.execute(insert(invitations).values({**row, "expires_at": now + INVITATION}))
    return secret


def _invited(tx: Connection, secret: str) -> Invitation:
    row = tx.execute(select(*INVITED).where(invitations.c.digest == _digest(secret))).first()
    if row is None or row.expires_at < clock.now():
        raise InvitationGone
    return Invitation(**row._mapping)


def _leave_an_admin(tx: Connection) -> None:
    if tx.execute(select(func.count()).select_from(people).where(people.c.role == "admin")).scalar_one() < 2:
        raise LastAdmin


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def form_token(session_secret: str) -> str:
    """What a form of this session carries, so that no other site can send one in its person's name."""
    return hmac.new(session_secret.encode(), b"form", hashlib.sha256).hexdigest()


def _person(row: Row[Any]) -> Person:
    return Person(**row._mapping)
