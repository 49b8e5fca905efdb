"""People who sign in to the dashboard: accounts, roles and invitations. Secrets of links are stored as digests."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, func, insert, select, update

from copydesk.core import audit_log, clock
from copydesk.core.accounts.api_keys import ApiKeys
from copydesk.core.accounts.passwords import hash_password, verify_password
from copydesk.core.accounts.person import (
    NO_ROLE,
    PERSON_COLUMNS,
    Person,
    PersonNotFound,
    person_from_row,
    person_to_row,
    validate_email,
    validate_global_role,
    validate_role,
)
from copydesk.core.accounts.project_roles import ProjectRoles, add_project_roles, remove_project_roles
from copydesk.core.accounts.sessions import Sessions
from copydesk.core.accounts.sign_in_limits import count_password_attempt, count_sign_in_attempt, reset_sign_in_attempts
from copydesk.core.audit_log import NO_PROJECT
from copydesk.core.db.database import Database
from copydesk.core.db.tables import invitations, keys, people, projects, sessions
from copydesk.core.errors import Conflict, InvalidRequest, NotFound, ProjectNotFound, RequestError
from copydesk.core.ids import new_id, random_text, sha256_hex
from copydesk.core.text.display_names import validate_display_name

INVITATION_LIFETIME_MS = 7 * clock.DAY
SYSTEM_ACTOR = "copydesk"


class WrongPassword(RequestError):
    status, code = 401, "wrong_password"
    message = "The email address or the password is wrong."


class NotInvited(RequestError):
    status, code = 403, "not_invited"
    message = "This address has not been invited; ask an administrator."


class InvitationGone(NotFound):
    code = "invitation_gone"
    message = "This link was already used, has expired or never existed; ask an administrator for a new one."


class LastAdmin(Conflict):
    code = "last_admin"
    message = "This is the last administrator. Make someone else an administrator first."


@dataclass(frozen=True)
class Invitation:
    email: str
    """Empty for the first administrator's link: its user chooses the address."""
    role: str
    created_at: int
    created_by: str
    expires_at: int
    is_reset: bool
    """Whether the account exists already, so that the link sets a new password."""
    project_roles: Mapping[str, str] = field(default_factory=dict)
    """The roles in single projects that the link gives, by project id."""


HAS_ACCOUNT = exists().where(people.c.email == invitations.c.email).label("is_reset")
INVITATION_COLUMNS = [
    HAS_ACCOUNT,
    *(invitations.c[each.name] for each in fields(Invitation) if each.name != "is_reset"),
]


class People:
    def __init__(self, database: Database, keys: ApiKeys) -> None:
        self.database = database
        self._keys = keys
        self.sessions = Sessions(database)
        self.project_roles = ProjectRoles(database, keys)

    def all(self) -> list[Person]:
        with self.database.read() as tx:
            return [person_from_row(row) for row in tx.execute(select(*PERSON_COLUMNS).order_by(people.c.email))]

    def get(self, person_id: str) -> Person:
        return self._get_where(people.c.id == person_id)

    def get_by_email(self, email: str) -> Person:
        return self._get_where(people.c.email == validate_email(email))

    def count_keys_by_creator(self) -> dict[str, int]:
        """Returns how many active keys each creator has."""
        is_live = keys.c.revoked_at.is_(None) & (keys.c.expires_at.is_(None) | (keys.c.expires_at > clock.now()))
        query = select(keys.c.created_by, func.count()).where(is_live).group_by(keys.c.created_by)
        with self.database.read() as tx:
            return {row[0]: row[1] for row in tx.execute(query)}

    def has_admin(self) -> bool:
        with self.database.read() as tx:
            return _has_admin(tx)

    def create_first_admin_link(self) -> str | None:
        """Returns the secret of a link that creates the first administrator, or None if there is an administrator.

        Accounts without that role, such as viewers from the identity provider, do not invalidate the link."""
        with self.database.write() as tx:
            if _has_admin(tx):
                return None
            return _create_invitation(tx, "", "admin", SYSTEM_ACTOR)

    def invite(self, email: str, role: str, *, actor: str) -> str:
        """Invites a person. Returns the secret of the link, which can be used once."""
        email = validate_email(email)
        role = validate_global_role(role)
        with self.database.write() as tx:
            _refuse_account(tx, email)
            secret = _create_invitation(tx, email, role, actor)
            audit_log.record(tx, NO_PROJECT, actor, "person.invited", "", email=email, role=role)
        return secret

    def invite_to_project(self, email: str, project_id: str, role: str, *, actor: str) -> str:
        """Invites a person to a single project. Returns the secret of the link, which can be used once.

        The new link also gives the roles of an open invitation of this address, whose link becomes invalid."""
        email = validate_email(email)
        role = validate_role(role)
        with self.database.write() as tx:
            _refuse_account(tx, email)
            if tx.execute(select(projects.c.id).where(projects.c.id == project_id)).first() is None:
                raise ProjectNotFound
            is_open = (invitations.c.email == email) & (invitations.c.expires_at > clock.now())
            row = tx.execute(select(*INVITATION_COLUMNS).where(is_open)).first()
            invitation = _invitation_from_row(row) if row else None
            project_roles = {**(invitation.project_roles if invitation else {}), project_id: role}
            secret = _create_invitation(tx, email, invitation.role if invitation else NO_ROLE, actor, project_roles)
            for log_id in (project_id, NO_PROJECT):
                audit_log.record(tx, log_id, actor, "access.invited", project_id, email=email, role=role)
        return secret

    def create_reset_link(self, person: Person, *, actor: str, lifetime_ms: int = INVITATION_LIFETIME_MS) -> str:
        """Returns the secret of a link with which a person who forgot the password sets a new one."""
        query = select(people.c.id).where(people.c.id == person.id)
        with self.database.write() as tx:
            if not tx.execute(query.with_for_update()).first():
                raise PersonNotFound  # otherwise a person who is being removed could come back with the link
            secret = _create_invitation(tx, person.email, person.role, actor, lifetime_ms=lifetime_ms)
            audit_log.record(tx, NO_PROJECT, actor, "person.reset", person.id, email=person.email)
        return secret

    def list_invitations(self) -> list[Invitation]:
        """Lists open invitations, without the first administrator's link."""
        query = select(*INVITATION_COLUMNS).where(invitations.c.email != "", invitations.c.expires_at > clock.now())
        with self.database.read() as tx:
            return [_invitation_from_row(row) for row in tx.execute(query.order_by(invitations.c.email))]

    def withdraw_invitation(self, email: str, *, actor: str) -> None:
        with self.database.write() as tx:
            same_email = (invitations.c.email == email) & (invitations.c.email != "")
            if tx.execute(delete(invitations).where(same_email)).rowcount:
                audit_log.record(tx, NO_PROJECT, actor, "person.invitation_withdrawn", "", email=email)

    def get_invitation(self, secret: str) -> Invitation:
        with self.database.read() as tx:
            return _get_invitation(tx, secret)

    def accept_invitation(self, secret: str, email: str, name: str, password: str) -> Person:
        """Creates the account that the link is for, or sets its password. The link cannot be used again."""
        hashed = hash_password(password)
        with self.database.write() as tx:
            invitation = _get_invitation(tx, secret)
            if not tx.execute(delete(invitations).where(invitations.c.digest == sha256_hex(secret))).rowcount:
                raise InvitationGone  # another request has used it
            if not invitation.email:
                return _make_first_admin(tx, email, name, hashed)
            if not invitation.is_reset:
                roles = invitation.project_roles
                return _add_person(tx, invitation.email, name, invitation.role, roles, password=hashed)
            row = tx.execute(select(*PERSON_COLUMNS).where(people.c.email == invitation.email)).one()
            _set_password(tx, person_from_row(row), hashed)
            return person_from_row(row)

    def sign_in(self, email: str, password: str, address: str | None) -> Person:
        """Returns the person with this address and password.

        Attempts are counted before the password is verified, so that parallel guesses cannot bypass the rate limit.
        """
        email = email.strip().lower()[:200]
        with self.database.write() as tx:
            count_sign_in_attempt(self.database, tx, email, address)
        with self.database.read() as tx:
            row = tx.execute(select(*PERSON_COLUMNS, people.c.password).where(people.c.email == email)).first()
        if not verify_password(row.password if row else None, password) or row is None:
            raise WrongPassword
        with self.database.write() as tx:
            reset_sign_in_attempts(tx, email)
        return person_from_row(row)

    def sign_in_with_provider(self, subject: str, issuer: str, email: str, name: str, role: str | None) -> Person:
        """Returns the person whom an identity provider has authenticated.

        Finds the account by the provider's id, or else by the email address, which the provider has verified. A new
        person needs an invitation, or joins with `role` if it is given."""
        email = validate_email(email)
        provider_subject = f"{issuer}#{subject}"
        with self.database.write() as tx:
            row = tx.execute(select(*PERSON_COLUMNS).where(people.c.subject == provider_subject)).first()
            if row is not None:
                return person_from_row(row)
            row = tx.execute(select(*PERSON_COLUMNS, people.c.subject).where(people.c.email == email)).first()
            if row is not None:
                if row.subject and row.subject.startswith(f"{issuer}#"):  # the address now belongs to another person
                    raise NotInvited("This address belongs to another account at the same provider.")
                tx.execute(update(people).where(people.c.id == row.id).values(subject=provider_subject))
                audit_log.record(tx, NO_PROJECT, email, "person.linked", row.id, issuer=issuer)
                return person_from_row(row)
            is_pending = (invitations.c.email == email) & (invitations.c.expires_at > clock.now())
            invited = tx.execute(select(*INVITATION_COLUMNS).where(is_pending)).first()
            if invited is not None:
                invitation = _invitation_from_row(invited)
                roles = invitation.project_roles
                return _add_person(tx, email, name, invitation.role, roles, subject=provider_subject)
            if role is None:
                raise NotInvited
            return _add_person(tx, email, name, validate_global_role(role), {}, subject=provider_subject)

    def has_password(self, person: Person) -> bool:
        with self.database.read() as tx:
            return tx.execute(select(people.c.password).where(people.c.id == person.id)).scalar() is not None

    def change_password(self, person: Person, old_password: str, new_password: str, keep_session_id: str) -> None:
        """Changes the password and ends all other sessions, which an intruder with the old one may have opened."""
        with self.database.write() as tx:
            count_password_attempt(self.database, tx, person.email)
            old_hash = tx.execute(select(people.c.password).where(people.c.id == person.id)).scalar()
        if not old_hash:
            raise Conflict("This account has no password. You sign in with your identity provider.")
        if not verify_password(old_hash, old_password):
            raise InvalidRequest("The current password is wrong.")
        new_hash = hash_password(new_password)
        with self.database.write() as tx:
            reset_sign_in_attempts(tx, person.email)
            _set_password(tx, person, new_hash, keep_session_id)

    def change_role(self, person_id: str, role: str, *, actor: str, keep_keys: bool = False) -> int:
        """Changes the role in all projects, with immediate effect on open sessions. Returns how many keys were revoked.

        Who was an administrator loses the unused links and, unless `keep_keys`, the keys that they created, since only
        administrators may create them."""
        role = validate_global_role(role)
        with self.database.write() as tx:
            person = self._get_for_update(tx, person_id, stays_admin=role == "admin")
            if person.role == role:
                return 0
            tx.execute(update(people).where(people.c.id == person_id).values(role=role))
            details: dict[str, str | int] = {"email": person.email, "before": person.role, "role": role}
            revoked = 0
            if person.role == "admin":
                details["links_withdrawn"] = _withdraw_links_by(tx, person)
                if not keep_keys:
                    reason = f"{person.email} is no longer an administrator"
                    revoked = self._keys.revoke_created_by(tx, person.email, actor=actor, reason=reason)
                details["keys"] = "kept" if keep_keys else f"{revoked} revoked"
            audit_log.record(tx, NO_PROJECT, actor, "person.role_changed", person.id, **details)
        return revoked

    def remove(self, person_id: str, *, actor: str) -> int:
        """Removes a person with their sessions, links and keys. Returns how many keys were revoked."""
        with self.database.write() as tx:
            person = self._get_for_update(tx, person_id, stays_admin=False)
            tx.execute(delete(sessions).where(sessions.c.person_id == person_id))
            tx.execute(delete(invitations).where(invitations.c.email == person.email))
            remove_project_roles(tx, person, actor=actor)
            tx.execute(delete(people).where(people.c.id == person_id))
            _withdraw_links_by(tx, person)
            reason = f"{person.email} was removed"
            revoked = self._keys.revoke_created_by(tx, person.email, actor=actor, reason=reason)
            audit_log.record(tx, NO_PROJECT, actor, "person.removed", person.id, email=person.email, keys=revoked)
        return revoked

    def _get_where(self, condition: ColumnElement[bool]) -> Person:
        with self.database.read() as tx:
            row = tx.execute(select(*PERSON_COLUMNS).where(condition)).first()
        if row is None:
            raise PersonNotFound
        return person_from_row(row)

    def _get_for_update(self, tx: Connection, person_id: str, *, stays_admin: bool) -> Person:
        """Locks the table of people until the transaction ends, and returns this person.

        Raises LastAdmin if the change would leave no administrator.
        """
        query = select(*PERSON_COLUMNS).order_by(people.c.id)
        rows = tx.execute(query.with_for_update()).all()
        person = next((person_from_row(row) for row in rows if row.id == person_id), None)
        if person is None:
            raise PersonNotFound
        if person.role == "admin" and not stays_admin and sum(row.role == "admin" for row in rows) < 2:
            raise LastAdmin
        return person


def _refuse_account(tx: Connection, email: str) -> None:
    if tx.execute(select(people.c.id).where(people.c.email == email)).first():
        raise InvalidRequest(f"{email} already has an account.")


def _add_person(
    tx: Connection,
    email: str,
    name: str,
    role: str,
    project_roles: Mapping[str, str],
    *,
    password: str | None = None,
    subject: str | None = None,
) -> Person:
    """Adds a person with a role in all projects, and roles in those single projects that still exist."""
    email = validate_email(email)
    _refuse_account(tx, email)
    person = Person(new_id("pers"), email, validate_display_name(name or email), role, clock.now())
    tx.execute(insert(people).values({**person_to_row(person), "password": password, "subject": subject}))
    tx.execute(delete(invitations).where(invitations.c.email == email))  # else it could set the password
    audit_log.record(tx, NO_PROJECT, email, "person.joined", person.id, role=role)
    is_invited_to = projects.c.id.in_(sorted(project_roles))
    existing = list(tx.execute(select(projects.c.id).where(is_invited_to).with_for_update(read=True)).scalars())
    add_project_roles(tx, person, {project_id: project_roles[project_id] for project_id in existing}, email)
    for project_id in existing:
        audit_log.record(tx, project_id, email, "access.joined", person.id, role=project_roles[project_id])
    return person


def _make_first_admin(tx: Connection, email: str, name: str, hashed: str) -> Person:
    """Creates the first administrator, or gives that role and the password to the account with this address.

    The account exists if the person signed in with the identity provider before opening the link."""
    row = tx.execute(select(*PERSON_COLUMNS).where(people.c.email == validate_email(email))).first()
    if row is None:
        return _add_person(tx, email, name, "admin", {}, password=hashed)
    person = replace(person_from_row(row), role="admin")
    tx.execute(update(people).where(people.c.id == person.id).values(role=person.role))
    details = {"email": person.email, "before": row.role, "role": person.role}
    audit_log.record(tx, NO_PROJECT, SYSTEM_ACTOR, "person.role_changed", person.id, **details)
    _set_password(tx, person, hashed)
    return person


def _set_password(tx: Connection, person: Person, hashed: str, keep_session_id: str = "") -> None:
    tx.execute(update(people).where(people.c.id == person.id).values(password=hashed))
    tx.execute(delete(sessions).where(sessions.c.person_id == person.id, sessions.c.id != keep_session_id))
    audit_log.record(tx, NO_PROJECT, person.email, "person.password_changed", person.id)


def _create_invitation(
    tx: Connection,
    email: str,
    role: str,
    actor: str,
    project_roles: Mapping[str, str] | None = None,
    lifetime_ms: int = INVITATION_LIFETIME_MS,
) -> str:
    """Creates a link for this address and returns its secret. Earlier links for the address become invalid."""
    secret = random_text(32)
    now = clock.now()
    tx.execute(delete(invitations).where((invitations.c.email == email) | (invitations.c.expires_at < now)))
    row = {"digest": sha256_hex(secret), "email": email, "role": role, "created_at": now, "created_by": actor}
    row["project_roles"] = dict(project_roles or {})
    tx.execute(insert(invitations).values({**row, "expires_at": now + lifetime_ms}))
    return secret


def _withdraw_links_by(tx: Connection, person: Person) -> int:
    """Deletes the invitations and password links that this person created and knows. Returns how many."""
    return tx.execute(delete(invitations).where(invitations.c.created_by == person.email)).rowcount


def _get_invitation(tx: Connection, secret: str) -> Invitation:
    row = tx.execute(select(*INVITATION_COLUMNS).where(invitations.c.digest == sha256_hex(secret))).first()
    if row is None or row.expires_at < clock.now():
        raise InvitationGone
    if not row.email and _has_admin(tx):  # this is the first administrator's link
        raise InvitationGone
    return _invitation_from_row(row)


def _invitation_from_row(row: Row[*tuple[Any, ...]]) -> Invitation:
    return Invitation(**row._mapping)


def _has_admin(tx: Connection) -> bool:
    return tx.execute(select(people.c.id).where(people.c.role == "admin").limit(1)).first() is not None
