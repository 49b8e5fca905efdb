"""Links that show a project's analytics to everyone who has them. A link is shown once and stored as a digest."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select, update
from sqlalchemy.exc import IntegrityError

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import Conflict, InvalidRequest, NotFound, ProjectNotFound
from copydesk.core.ids import BASE62, is_id, new_id, random_text, sha256_hex
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project, project_from_values
from copydesk.core.text.display_names import validate_display_name
from copydesk.sharing.tables import share_links

PARTS = ("overview", "pages", "agents", "missing", "searches")
"""What a link to public pages can show. Jobs, settings, feedback and questions are never shared."""
BADGE = "badge"
"""The part of a link that shows one number. It stands alone: such a link is published in the pages that show it."""
DEFAULT_PARTS = ("overview", "pages", "agents")
DEFAULT_NAME = "Shared analytics"
TOKEN_CHARS = 32
MAX_ACTIVE_LINKS = 100
MAX_LIFETIME_MS = 3660 * clock.DAY
USE_RECORD_INTERVAL_MS = 60 * clock.SECOND


class ShareNotFound(NotFound):
    """A link that is unknown, revoked, expired, or does not show what was requested. The answer is always the same."""

    code = "share_not_found"
    message = "There is no shared page at this address. The link may have been revoked."


class ShareAlreadyCreated(Conflict):
    code = "share_already_created"
    message = "This form was already submitted. Its link was shown then and cannot be shown again."


class TooManyShares(Conflict):
    code = "too_many_shares"
    message = f"A project can have {MAX_ACTIVE_LINKS} links. Revoke one before you create another."


@dataclass(frozen=True)
class ShareLink:
    id: str
    project_id: str
    name: str
    parts: tuple[str, ...]
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None

    @property
    def is_active(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > clock.now())

    @property
    def is_badge(self) -> bool:
        return self.parts == (BADGE,)

    @property
    def should_record_use(self) -> bool:
        return self.last_used_at is None or self.last_used_at + USE_RECORD_INTERVAL_MS < clock.now()

    def path(self, token: str) -> str:
        """Returns the path of what the link shows."""
        return f"/share/{token}/badge.svg" if self.is_badge else f"/share/{token}"


class CreatedShare(NamedTuple):
    link: ShareLink
    token: str


class OpenedShare(NamedTuple):
    link: ShareLink
    project: Project


LINK_FIELDS = tuple(field.name for field in fields(ShareLink))
PROJECT_FIELDS = tuple((field.name, f"project_{field.name}") for field in fields(Project))
LINK_AND_PROJECT = select(
    share_links, *(column.label(f"project_{column.name}") for column in projects.c if column.name != "id")
).join(projects, projects.c.id == share_links.c.project_id)


class ShareLinks:
    def __init__(self, database: Database) -> None:
        self.database = database

    def create(
        self,
        project_id: str,
        *,
        parts: Sequence[str] = (),
        name: str = "",
        expires_in: int | None = None,
        link_id: str | None = None,
        actor: str,
    ) -> CreatedShare:
        """Creates a link. Returns its record and its token, which cannot be shown again.

        A caller that may submit twice passes `link_id`, and gets ShareAlreadyCreated instead of a second link.
        """
        if link_id is not None and not is_id(link_id, "share"):
            raise InvalidRequest("This is not the ID of a link. Reload the page and try again.")
        if expires_in is not None and not 0 < expires_in <= MAX_LIFETIME_MS:
            raise InvalidRequest("A link can expire after one hour to ten years.")
        now = clock.now()
        link = ShareLink(
            id=link_id or new_id("share"),
            project_id=project_id,
            name=validate_display_name(name.strip() or DEFAULT_NAME, "The name of a link"),
            parts=validate_parts(parts or DEFAULT_PARTS),
            created_at=now,
            created_by=actor,
            expires_at=None if expires_in is None else now + expires_in,
            last_used_at=None,
            revoked_at=None,
        )
        token = random_text(TOKEN_CHARS)
        row = {**vars(link), "parts": list(link.parts), "digest": sha256_hex(token)}
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                if tx.execute(select(projects.c.id).where(projects.c.id == project_id)).first() is None:
                    raise ProjectNotFound
                is_open = (share_links.c.project_id == project_id) & share_links.c.revoked_at.is_(None)
                is_current = share_links.c.expires_at.is_(None) | (share_links.c.expires_at > now)
                count = select(func.count()).select_from(share_links).where(is_open, is_current)
                if tx.execute(count).scalar_one() >= MAX_ACTIVE_LINKS:
                    raise TooManyShares
                tx.execute(share_links.insert().values(row))
                details = {"name": link.name, "parts": list(link.parts)}
                audit_log.record(tx, project_id, actor, "share.created", link.id, **details)
        except IntegrityError:
            raise ShareAlreadyCreated from None
        return CreatedShare(link, token)

    def get(self, project_id: str, link_id: str) -> ShareLink:
        """Returns a link of this project. Raises ShareNotFound for an unknown link and another project's link alike."""
        same_row = (share_links.c.id == link_id) & (share_links.c.project_id == project_id)
        with self.database.read() as tx:
            row = tx.execute(select(share_links).where(same_row)).first()
        if row is None:
            raise ShareNotFound("There is no such link.")
        return _link_from_row(row)

    def list_for_project(self, project_id: str) -> list[ShareLink]:
        """Returns the links of a project, newest first."""
        query = select(share_links).where(share_links.c.project_id == project_id).order_by(share_links.c.id.desc())
        with self.database.read() as tx:
            return [_link_from_row(row) for row in tx.execute(query)]

    def revoke(self, project_id: str, link_id: str, *, actor: str) -> ShareLink:
        """Revokes a link. Revoking it again changes nothing."""
        link = self.get(project_id, link_id)
        is_unrevoked = (share_links.c.id == link.id) & share_links.c.revoked_at.is_(None)
        with self.database.write() as tx:
            if tx.execute(update(share_links).where(is_unrevoked).values(revoked_at=clock.now())).rowcount:
                audit_log.record(tx, project_id, actor, "share.revoked", link.id, name=link.name)
        return self.get(project_id, link_id)

    def open(self, token: str, part: str | None = None) -> OpenedShare:
        """Returns the link of a token and its project. Raises ShareNotFound unless the link shows this part.

        `part` None means any part except a badge's number.
        """
        if len(token) != TOKEN_CHARS or any(char not in BASE62 for char in token):
            raise ShareNotFound
        digest = sha256_hex(token)
        with self.database.read() as tx:
            row = tx.execute(LINK_AND_PROJECT.where(share_links.c.digest == digest)).first()
        if row is None or not hmac.compare_digest(row.digest, digest):
            raise ShareNotFound
        link = _link_from_row(row)
        if not link.is_active or (link.is_badge if part is None else part not in link.parts):
            raise ShareNotFound
        return OpenedShare(link, _project_from_row(row))

    def record_use(self, link: ShareLink) -> None:
        now = clock.now()
        is_due = share_links.c.last_used_at.is_(None) | (share_links.c.last_used_at < now - USE_RECORD_INTERVAL_MS)
        with self.database.write() as tx:
            tx.execute(update(share_links).where(share_links.c.id == link.id, is_due).values(last_used_at=now))


def validate_parts(parts: Sequence[str]) -> tuple[str, ...]:
    """Returns the parts in their usual order. Raises InvalidRequest for unknown parts, or a badge beside others."""
    for part in parts:
        if part not in (*PARTS, BADGE):
            raise InvalidRequest(f"Unknown part '{part[:40]}'. Use {', '.join(PARTS)}, or {BADGE} alone.")
    if BADGE in parts:
        if set(parts) != {BADGE}:
            raise InvalidRequest("A badge needs a link of its own, because the link is published with the badge.")
        return (BADGE,)
    return tuple(part for part in PARTS if part in parts)


def _link_from_row(row: Row[Any]) -> ShareLink:
    values = {name: row._mapping[name] for name in LINK_FIELDS}
    return ShareLink(**{**values, "parts": tuple(row.parts)})


def _project_from_row(row: Row[Any]) -> Project:
    values = {name: row._mapping[label] for name, label in PROJECT_FIELDS if name != "id"}
    return project_from_values({**values, "id": row.project_id})
