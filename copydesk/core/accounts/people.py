"""People who sign in to the dashboard: accounts, roles and invitations. Secrets are stored as digests."""

from dataclasses import dataclass, fields, replace
from ipaddress import ip_address, ip_network

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, select, update

from copydesk.core import audit_log as audit
from copydesk.core import clock
from copydesk.core.accounts.api_keys import Keys
from copydesk.core.accounts.passwords import hash_of, is_password
from copydesk.core.accounts.person import PERSON, Person, checked_email, checked_name, checked_role, person_of
from copydesk.core.accounts.sessions import Sessions
from copydesk.core.audit_log import EVERYWHERE
from copydesk.core.db.database import Database
from copydesk.core.db.tables import invitations, keys, limits, people, sessions
from copydesk.core.errors import Conflict, InvalidRequest, NotFound, Refusal
from copydesk.core.ids import digest, new_id, random_text
from copydesk.core.rate_limits.limits import Limit, take

INVITATION = 7 * clock.DAY
SYSTEM = "copydesk"
PER_PERSON, PER_ADDRESS = Limit("sign-in", 10, 15 * 60_000), Limit("sign-in-address", 50, 15 * 60_000)


class WrongPassword(Refusal):
    status, code = 401, "wrong_password"
    message = "The email address or the password is wrong."


class NotInvited(Refusal):
    status, code = 403, "not_invited"
    message = "This address has not been invited; ask an administrator."


class InvitationGone(NotFound):
    code = "invitation_gone"
    message = "This link was already used, has expired or never existed; ask an administrator for a new one."


class PersonNotFound(NotFound):
    code = "person_not_found"
    message = "There is no such person."


class LastAdmin(Conflict):
    code = "last_admin"
    message = "This is the last administrator. Make someone else an administrator first."


@dataclass(frozen=True)
class Invitation:
    email: str
    """Empty when whoever has the link may choose: the first of all."""
    role: str
    created_at: int
    created_by: str
    expires_at: int
    is_reset: bool
    """Whether the account is there already, and the link sets a new password."""


HAS_ACCOUNT = exists().where(people.c.email == invitations.c.email).label("is_reset")
INVITED = [HAS_ACCOUNT, *(invitations.c[field.name] for field in fields(Invitation) if field.name != "is_reset")]


class People:
    def __init__(self, database: Database, keys: Keys) -> None:
        self.database, self._keys = database, keys
        self.sessions = Sessions(database)

    def all(self) -> list[Person]:
        with self.database.read() as tx:
            return [person_of(row) for row in tx.execute(select(*PERSON).order_by(people.c.email))]

    def get(self, person_id: str) -> Person:
        return self._one(people.c.id == person_id)

    def by_email(self, email: str) -> Person:
        return self._one(people.c.email == checked_email(email))

    def keys_made(self) -> dict[str, int]:
        """How many keys that still open something each creator has made."""
        is_live = keys.c.revoked_at.is_(None) & (keys.c.expires_at.is_(None) | (keys.c.expires_at > clock.now()))
        wanted = select(keys.c.created_by, func.count()).where(is_live).group_by(keys.c.created_by)
        with self.database.read() as tx:
            return {row[0]: row[1] for row in tx.execute(wanted)}

    def has_admin(self) -> bool:
        with self.database.read() as tx:
            return _has_admin(tx)

    def first_link(self) -> str | None:
        """Returns the secret of a link that makes the first administrator; None once there is an administrator.

        People who came in otherwise, such as viewers from the identity provider, do not void it."""
        with self.database.write() as tx:
            if _has_admin(tx):
                return None
            return _invite(tx, "", "admin", SYSTEM)

    def invite(self, email: str, role: str, *, actor: str) -> str:
        """The secret of a link, which can be used once."""
        email, role = checked_email(email), checked_role(role)
        with self.database.write() as tx:
            if tx.execute(select(people.c.id).where(people.c.email == email)).first():
                raise InvalidRequest(f"{email} has an account already.")
            secret = _invite(tx, email, role, actor)
            audit.record(tx, EVERYWHERE, actor, "person.invited", "", email=email, role=role)
        return secret

    def reset(self, person: Person, *, actor: str) -> str:
        """The secret of a link by which somebody who forgot their password sets a new one."""
        with self.database.write() as tx:
            secret = _invite(tx, person.email, person.role, actor)
            audit.record(tx, EVERYWHERE, actor, "person.reset", person.id, email=person.email)
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
                audit.record(tx, EVERYWHERE, actor, "person.invitation_withdrawn", "", email=email)

    def invited(self, secret: str) -> Invitation:
        with self.database.read() as tx:
            return _invited(tx, secret)

    def accept(self, secret: str, email: str, name: str, password: str) -> Person:
        """Makes the account that the link is for, or sets its password, and uses the link up."""
        hashed = hash_of(password)
        with self.database.write() as tx:
            invitation = _invited(tx, secret)
            if not tx.execute(delete(invitations).where(invitations.c.digest == digest(secret))).rowcount:
                raise InvitationGone  # somebody else was quicker
            if not invitation.email:
                return _make_first_admin(tx, email, name, hashed)
            if not invitation.is_reset:
                return _add(tx, invitation.email, name, invitation.role, password=hashed)
            row = tx.execute(select(*PERSON).where(people.c.email == invitation.email)).one()
            _set_password(tx, person_of(row), hashed)
            return person_of(row)

    def sign_in(self, email: str, password: str, address: str | None) -> Person:
        """Tries are counted before the password is looked at, so that many guesses at once are no way around."""
        email = email.strip().lower()[:200]
        with self.database.write() as tx:
            take(self.database, tx, PER_ADDRESS, _network(address))
            take(self.database, tx, PER_PERSON, digest(email))
        with self.database.read() as tx:
            row = tx.execute(select(*PERSON, people.c.password).where(people.c.email == email)).first()
        if not is_password(row.password if row else None, password) or row is None:
            raise WrongPassword
        with self.database.write() as tx:
            _forget_tries(tx, email)
        return person_of(row)

    def signed_in_by(self, subject: str, issuer: str, email: str, name: str, role: str | None) -> Person:
        """Whom an identity provider vouches for: known by its own id, else by the address, which it has verified.

        Somebody new comes in by an invitation, or with this role where one is given."""
        email, known_as = checked_email(email), f"{issuer}#{subject}"
        with self.database.write() as tx:
            row = tx.execute(select(*PERSON).where(people.c.subject == known_as)).first()
            if row is not None:
                return person_of(row)
            row = tx.execute(select(*PERSON, people.c.subject).where(people.c.email == email)).first()
            if row is not None:
                if row.subject and row.subject.startswith(f"{issuer}#"):  # the address has passed to somebody else
                    raise NotInvited("This address belongs to another account of the same provider.")
                tx.execute(update(people).where(people.c.id == row.id).values(subject=known_as))
                audit.record(tx, EVERYWHERE, email, "person.linked", row.id, issuer=issuer)
                return person_of(row)
            mine = (invitations.c.email == email) & (invitations.c.expires_at > clock.now())
            invited = tx.execute(select(invitations.c.role).where(mine)).scalar()
            if invited is None and role is None:
                raise NotInvited
            return _add(tx, email, name, invited or checked_role(role or ""), subject=known_as)

    def has_password(self, person: Person) -> bool:
        with self.database.read() as tx:
            return tx.execute(select(people.c.password).where(people.c.id == person.id)).scalar() is not None

    def change_password(self, person: Person, old: str, new: str, keep: str) -> None:
        """Ends all other sessions: whoever has the old password may be in one of them."""
        with self.database.write() as tx:
            take(self.database, tx, PER_PERSON, digest(person.email))
            known = tx.execute(select(people.c.password).where(people.c.id == person.id)).scalar()
        if not known:
            raise Conflict("This account has no password: you sign in with your identity provider.")
        if not is_password(known, old):
            raise InvalidRequest("The present password is wrong.")
        hashed = hash_of(new)
        with self.database.write() as tx:
            _forget_tries(tx, person.email)
            _set_password(tx, person, hashed, keep)

    def change_role(self, person_id: str, role: str, *, actor: str, keep_keys: bool = False) -> int:
        """Changes the role, at once and for open sessions too. Returns how many keys were revoked.

        A person who stops being an administrator loses what only administrators create: the links that nobody has
        used yet and, unless `keep_keys`, the keys."""
        role = checked_role(role)
        with self.database.write() as tx:
            person = self._held(tx, person_id, stays_admin=role == "admin")
            if person.role == role:
                return 0
            tx.execute(update(people).where(people.c.id == person_id).values(role=role))
            details: dict[str, str | int] = {"email": person.email, "before": person.role, "role": role}
            revoked = 0
            if person.role == "admin":
                details["links_withdrawn"] = _withdraw_links_by(tx, person)
                if not keep_keys:
                    reason = f"{person.email} is no longer an administrator"
                    revoked = self._keys.revoke_made_by(tx, person.email, actor=actor, because=reason)
                details["keys"] = "kept" if keep_keys else f"{revoked} revoked"
            audit.record(tx, EVERYWHERE, actor, "person.role_changed", person.id, **details)
        return revoked

    def remove(self, person_id: str, *, actor: str) -> int:
        """Ends their sessions, revokes the keys they created and withdraws their links. Returns how many keys."""
        with self.database.write() as tx:
            person = self._held(tx, person_id, stays_admin=False)
            tx.execute(delete(sessions).where(sessions.c.person_id == person_id))
            tx.execute(delete(invitations).where(invitations.c.email == person.email))
            tx.execute(delete(people).where(people.c.id == person_id))
            _withdraw_links_by(tx, person)
            because = f"{person.email} was removed"
            revoked = self._keys.revoke_made_by(tx, person.email, actor=actor, because=because)
            audit.record(tx, EVERYWHERE, actor, "person.removed", person.id, email=person.email, keys=revoked)
        return revoked

    def _one(self, which: ColumnElement[bool]) -> Person:
        with self.database.read() as tx:
            row = tx.execute(select(*PERSON).where(which)).first()
        if row is None:
            raise PersonNotFound
        return person_of(row)

    def _held(self, tx: Connection, person_id: str, *, stays_admin: bool) -> Person:
        """While this transaction lasts, nobody else changes who is an administrator; and one stays."""
        wanted = select(*PERSON).order_by(people.c.id)
        rows = tx.execute(wanted if self.database.is_sqlite else wanted.with_for_update()).all()
        found = next((person_of(row) for row in rows if row.id == person_id), None)
        if found is None:
            raise PersonNotFound
        if found.role == "admin" and not stays_admin and sum(row.role == "admin" for row in rows) < 2:
            raise LastAdmin
        return found


def _add(
    tx: Connection, email: str, name: str, role: str, *, password: str | None = None, subject: str | None = None
) -> Person:
    email = checked_email(email)
    if tx.execute(select(people.c.id).where(people.c.email == email)).first():
        raise InvalidRequest(f"{email} has an account already.")
    person = Person(new_id("pers"), email, checked_name(name or email), role, clock.now())
    tx.execute(insert(people).values({**vars(person), "password": password, "subject": subject}))
    tx.execute(delete(invitations).where(invitations.c.email == email))  # else it would now set the password
    audit.record(tx, EVERYWHERE, email, "person.joined", person.id, role=role)
    return person


def _make_first_admin(tx: Connection, email: str, name: str, hashed: str) -> Person:
    """Creates the administrator's account, or makes the account that has this address the administrator's.

    The second is for a person who signed in with the identity provider before they opened the link."""
    row = tx.execute(select(*PERSON).where(people.c.email == checked_email(email))).first()
    if row is None:
        return _add(tx, email, name, "admin", password=hashed)
    person = replace(person_of(row), role="admin")
    tx.execute(update(people).where(people.c.id == person.id).values(role=person.role))
    changed = {"email": person.email, "before": row.role, "role": person.role}
    audit.record(tx, EVERYWHERE, SYSTEM, "person.role_changed", person.id, **changed)
    _set_password(tx, person, hashed)
    return person


def _set_password(tx: Connection, person: Person, hashed: str, keep: str = "") -> None:
    tx.execute(update(people).where(people.c.id == person.id).values(password=hashed))
    tx.execute(delete(sessions).where(sessions.c.person_id == person.id, sessions.c.id != keep))
    audit.record(tx, EVERYWHERE, person.email, "person.password_changed", person.id)


def _invite(tx: Connection, email: str, role: str, actor: str) -> str:
    """One link for each address: an older one is worth nothing any more."""
    secret, now = random_text(32), clock.now()
    tx.execute(delete(invitations).where((invitations.c.email == email) | (invitations.c.expires_at < now)))
    row = {"digest": digest(secret), "email": email, "role": role, "created_at": now, "created_by": actor}
    tx.execute(insert(invitations).values({**row, "expires_at": now + INVITATION}))
    return secret


def _withdraw_links_by(tx: Connection, person: Person) -> int:
    """Voids the invitations and password links that this person created, and has seen. Returns how many."""
    return tx.execute(delete(invitations).where(invitations.c.created_by == person.email)).rowcount


def _invited(tx: Connection, secret: str) -> Invitation:
    row = tx.execute(select(*INVITED).where(invitations.c.digest == digest(secret))).first()
    if row is None or row.expires_at < clock.now():
        raise InvitationGone
    if not row.email and _has_admin(tx):  # the first link is for the first administrator
        raise InvitationGone
    return Invitation(**row._mapping)


def _has_admin(tx: Connection) -> bool:
    return tx.execute(select(people.c.id).where(people.c.role == "admin").limit(1)).first() is not None


def _forget_tries(tx: Connection, email: str) -> None:
    """Whoever has shown the password is none of those who guess."""
    tx.execute(delete(limits).where(limits.c.bucket == f"{PER_PERSON.name}:{digest(email)}"))


def _network(address: str | None) -> str:
    """What one attacker has at once: of IPv6 that is a whole network."""
    try:
        found = ip_address(address or "")
        mapped = getattr(found, "ipv4_mapped", None) or found
        return str(mapped if mapped.version == 4 else ip_network((int(mapped), 64), strict=False))
    except ValueError:
        return "unknown"
