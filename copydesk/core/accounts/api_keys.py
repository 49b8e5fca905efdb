"""API keys of projects. A key is shown once, stored as a digest, and never changes; it can only be revoked."""

import hmac
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, select, update
from sqlalchemy.exc import IntegrityError

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database, batch_ids
from copydesk.core.db.tables import keys, projects
from copydesk.core.errors import (
    AddressRefused,
    Conflict,
    InvalidRequest,
    KeyRejected,
    NotFound,
    ProjectNotFound,
    ScopeMissing,
)
from copydesk.core.ids import (
    KEY_PREFIX,
    is_id,
    is_importable_key,
    is_wellformed_key,
    new_id,
    new_key,
    sha256_hex,
)
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project, project_from_values
from copydesk.core.rate_limits.limits import RateLimit, consume
from copydesk.core.text.display_names import validate_display_name

SCOPES = ("read", "write", "events")
"""`write` includes the others. `events` is for web servers and middleware: it can only send events."""
LIFETIME_UNITS_MS = {"h": clock.HOUR, "d": clock.DAY, "w": 7 * clock.DAY}
USE_RECORD_INTERVAL_MS = 60 * clock.SECOND
DEFAULT_KEY_NAME = "API key"


class KeyNotFound(NotFound):
    code = "key_not_found"
    message = "There is no such API key."


class KeyAlreadyCreated(Conflict):
    code = "key_already_created"
    message = "This form was already submitted. Its key was shown then and cannot be shown again."


@dataclass(frozen=True)
class ApiKey:
    id: str
    project_id: str
    name: str
    hint: str
    scopes: tuple[str, ...]
    allow: tuple[str, ...]
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None

    @property
    def is_active(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > clock.now())

    def has_scope(self, scope: str) -> bool:
        return scope in self.scopes or (scope == "events" and "write" in self.scopes)

    @property
    def should_record_use(self) -> bool:
        """Returns whether the last recorded use is old enough to record another one."""
        return self.last_used_at is None or self.last_used_at + USE_RECORD_INTERVAL_MS < clock.now()

    def allows_address(self, address: str | None) -> bool:
        """Returns whether this key may be used from the address.

        An empty allow-list admits every address; otherwise an unknown address is refused.
        """
        if not self.allow:
            return True
        try:
            caller = ip_address(address or "")
        except ValueError:
            return False
        caller = getattr(caller, "ipv4_mapped", None) or caller
        return any(caller in ip_network(network) for network in self.allow)


class CreatedKey(NamedTuple):
    key: ApiKey
    project_name: str


SELECT_KEY_AND_PROJECT = (
    select(keys, *(column.label(f"project_{column.name}") for column in projects.c if column.name != "id"))
    .join(projects, projects.c.id == keys.c.project_id)
    .where(keys.c.digest == bindparam("digest"))
)
KEY_FIELDS = tuple(field.name for field in fields(ApiKey))
PROJECT_FIELDS = tuple((field.name, f"project_{field.name}") for field in fields(Project))


class ApiKeys:
    def __init__(self, database: Database, per_hour: int, extra_prefixes: Sequence[str] = ()) -> None:
        """Keys begin with KEY_PREFIX, or with one of the extra prefixes."""
        self.database = database
        self.extra_prefixes = extra_prefixes
        self.limit = RateLimit("keys", per_hour, clock.HOUR, "COPYDESK_KEYS_PER_HOUR")

    def create(
        self,
        project_id: str,
        *,
        name: str = "",
        scopes: Sequence[str] = (),
        expires_in: int | None = None,
        allow: Sequence[str] = (),
        key_id: str | None = None,
        prefix: str = KEY_PREFIX,
        imported: str | None = None,
        actor: str,
    ) -> tuple[ApiKey, str]:
        """Creates a key, or stores an imported one. Returns its record and the key itself, which cannot be shown again.

        A caller that may submit twice passes `key_id`, and gets KeyAlreadyCreated instead of a second key.
        """
        if key_id is not None and not is_id(key_id, "key"):
            raise InvalidRequest("This is not the ID of an API key. Reload the page and try again.")
        secret = self._validate_imported(imported) if imported is not None else new_key(self._validate_prefix(prefix))
        now = clock.now()
        key = ApiKey(
            id=key_id or new_id("key"),
            project_id=project_id,
            name=validate_display_name(name.strip() or DEFAULT_KEY_NAME, "A key name"),
            hint=secret[:9],
            scopes=_validate_scopes(scopes),
            allow=tuple(_validate_network(network) for network in allow),
            created_at=now,
            created_by=actor,
            expires_at=None if expires_in is None else now + expires_in,
            last_used_at=None,
            revoked_at=None,
        )
        row = {**key.__dict__, "scopes": list(key.scopes), "allow": list(key.allow), "digest": sha256_hex(secret)}
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                if tx.execute(select(projects.c.id).where(projects.c.id == project_id)).first() is None:
                    raise ProjectNotFound
                consume(self.database, tx, self.limit, project_id)
                tx.execute(keys.insert().values(row))
                audit_log.record(tx, project_id, actor, "key.created", key.id, name=key.name, scopes=list(key.scopes))
        except IntegrityError:
            if imported is not None:
                raise InvalidRequest("This key was imported before. A key belongs to one project.") from None
            raise KeyAlreadyCreated from None
        return key, secret

    def get(self, project_id: str, key_id: str) -> ApiKey:
        """Returns a key of this project. Raises KeyNotFound for an unknown key and another project's key alike."""
        same_row = (keys.c.id == key_id) & (keys.c.project_id == project_id)
        with self.database.read() as tx:
            row = tx.execute(select(keys).where(same_row)).first()
        if row is None:
            raise KeyNotFound
        return _key_from_row(row)

    def get_all(self, key_ids: Collection[str]) -> dict[str, ApiKey]:
        """Returns the keys with these ids, by id. Leaves out unknown ids."""
        keys_by_id: dict[str, ApiKey] = {}
        with self.database.read() as tx:
            for batch in batch_ids(key_ids):
                keys_by_id |= {
                    row.id: _key_from_row(row) for row in tx.execute(select(keys).where(keys.c.id.in_(batch)))
                }
        return keys_by_id

    def list_for_project(self, project_id: str) -> list[ApiKey]:
        with self.database.read() as tx:
            rows = tx.execute(select(keys).where(keys.c.project_id == project_id).order_by(keys.c.id.desc()))
            return [_key_from_row(row) for row in rows]

    def revoke(self, key_id: str, *, actor: str) -> ApiKey:
        """Revokes a key. Revoking it again changes nothing."""
        with self.database.write() as tx:
            row = tx.execute(select(keys).where(keys.c.id == key_id)).first()
            if row is None:
                raise KeyNotFound
            if row.revoked_at is None:
                tx.execute(update(keys).where(keys.c.id == key_id).values(revoked_at=clock.now()))
                audit_log.record(tx, row.project_id, actor, "key.revoked", key_id)
            return _key_from_row(tx.execute(select(keys).where(keys.c.id == key_id)).one())

    def list_created_by(self, creator: str, project_id: str | None = None) -> list[CreatedKey]:
        """Returns the active keys that this person created, in one project or in all."""
        columns = select(keys, projects.c.name.label("project_name"))
        is_unrevoked = (keys.c.created_by == creator) & keys.c.revoked_at.is_(None)
        if project_id is not None:
            is_unrevoked &= keys.c.project_id == project_id
        query = columns.join(projects, projects.c.id == keys.c.project_id).where(is_unrevoked)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(projects.c.name, keys.c.id)).all()
        return [CreatedKey(_key_from_row(row), row.project_name) for row in rows if _key_from_row(row).is_active]

    def revoke_created_by(
        self, tx: Connection, creator: str, *, actor: str, reason: str, project_id: str | None = None
    ) -> int:
        """Revokes every key that this person created, in one project or in all. Returns how many."""
        conditions = [keys.c.created_by == creator, keys.c.revoked_at.is_(None)]
        if project_id is not None:
            conditions.append(keys.c.project_id == project_id)
        rows = tx.execute(select(keys.c.id, keys.c.project_id).where(*conditions)).all()
        tx.execute(update(keys).where(*conditions).values(revoked_at=clock.now()))
        for row in rows:
            audit_log.record(tx, row.project_id, actor, "key.revoked", row.id, because=reason)
        return len(rows)

    def authenticate(
        self, secret: str, project_id: str | None, scope: str, address: str | None
    ) -> tuple[ApiKey, Project]:
        """Returns the key and its project if the key is valid for this project, scope and address.

        None as the project means the key's own. Raises a RequestError otherwise. Only reads the database.
        """
        if not is_wellformed_key(secret) and not is_importable_key(secret, self.extra_prefixes):
            raise KeyRejected("This is not a Copydesk API key: it is malformed or mistyped.")
        key_digest = sha256_hex(secret)
        with self.database.read() as tx:
            row = tx.execute(SELECT_KEY_AND_PROJECT, {"digest": key_digest}).first()
        if row is None or not hmac.compare_digest(row.digest, key_digest):
            raise KeyRejected
        key = _key_from_row(row)
        if not key.is_active:
            raise KeyRejected
        if project_id is not None and key.project_id != project_id:
            raise ProjectNotFound
        if not key.has_scope(scope):
            raise ScopeMissing(f"This API key lacks the scope '{scope}'.")
        if not key.allows_address(address):
            raise AddressRefused
        return key, _project_from_row(row)

    def _validate_prefix(self, prefix: str) -> str:
        if prefix != KEY_PREFIX and prefix not in self.extra_prefixes:
            raise InvalidRequest(f"Keys cannot begin with {prefix!r}. Add the prefix to COPYDESK_EXTRA_KEY_PREFIXES.")
        return prefix

    def _validate_imported(self, secret: str) -> str:
        if not is_importable_key(secret, self.extra_prefixes):
            prefixes = ", ".join(self.extra_prefixes) or "none"
            raise InvalidRequest(
                "An imported key must begin with a prefix in COPYDESK_EXTRA_KEY_PREFIXES (now: "
                f"{prefixes}), followed by 20 to 200 letters, digits, - or _."
            )
        return secret

    def record_use(self, key: ApiKey) -> None:
        is_due = keys.c.last_used_at.is_(None) | (keys.c.last_used_at < clock.now() - USE_RECORD_INTERVAL_MS)
        with self.database.write() as tx:
            tx.execute(update(keys).where(keys.c.id == key.id, is_due).values(last_used_at=clock.now()))


def parse_lifetime(text: str) -> int:
    """Converts '90d', '12h' or '2w' to milliseconds."""
    match = re.fullmatch(r"([1-9]\d{0,4})([hdw])", text.strip())
    if match is None:
        raise InvalidRequest("A lifetime must be a number followed by h, d or w, such as 12h, 90d or 2w.")
    return int(match[1]) * LIFETIME_UNITS_MS[match[2]]


def _validate_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidRequest(f"Unknown scope '{scope}'. Use 'read', 'write' or 'events'.")
    if not scopes or "write" in scopes:
        return ("read", "write")
    return tuple(scope for scope in SCOPES if scope in scopes)


def _validate_network(text: str) -> str:
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise InvalidRequest(f"'{text}' is not an IP address or a CIDR network.") from None
    if network.prefixlen == 0:
        raise InvalidRequest(f"'{text}' would allow every address. Leave the list empty instead.")
    return str(network)


def _key_from_row(row: Row[Any]) -> ApiKey:
    row_values = row._mapping
    values = {name: row_values[name] for name in KEY_FIELDS}
    return ApiKey(**{**values, "scopes": tuple(row.scopes), "allow": tuple(row.allow)})


def _project_from_row(row: Row[Any]) -> Project:
    row_values = row._mapping
    return project_from_values({name: row_values[label] for name, label in PROJECT_FIELDS})
