"""The API keys page: the ids that programs need, keys made and revoked, and snippets to begin with."""

import re
from dataclasses import dataclass

from fastapi import APIRouter, Response

from copydesk.core import clock
from copydesk.core.accounts.api_keys import Key
from copydesk.core.errors import InvalidRequest, Refusal
from copydesk.core.ids import new_id
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.web.dashboard.auth.session import Admin, AdminPost, Viewer, Visit, see
from copydesk.web.dashboard.projects.snippets import snippets_of
from copydesk.web.responses.html import page

router = APIRouter()
EXPIRIES = {"7": "7 days", "30": "30 days", "60": "60 days", "90": "90 days", "none": "No expiry"}
USES = {"write": "Read and write", "read": "Read only", "events": "Send events only"}
"""What the page calls each scope."""
FRESH_FORM = {"name": "", "use": "write", "expiry": "90", "allow": ""}
SOON = 7 * clock.DAY


@dataclass(frozen=True)
class Row:
    key: Key
    look: str
    state: str


@router.get("/projects/{project_id}/keys")
async def keys(project_id: str, visit: Viewer) -> Response:
    return await _page(visit, await visit.project(project_id), FRESH_FORM)


@router.post("/projects/{project_id}/keys")
async def make_key(project_id: str, post: AdminPost) -> Response:
    """The key is in this very answer, and so never in an address, a cookie or a store. The form names the key's id:
    when the answer is reloaded, the form is sent again, and finds that the key was made before."""
    project = await post.project(project_id)
    typed = {name: post.form.get(name) for name in FRESH_FORM}
    try:
        key, secret = await call(
            post.desk.keys.create,
            project.id,
            name=typed["name"],
            scopes=[_chosen(typed["use"], USES)],
            expires_in=_lifetime(typed["expiry"]),
            allow=re.findall(r"[^\s,]+", typed["allow"]),
            key_id=post.form.get("id"),
            actor=post.person.email,
        )
    except Refusal as refusal:
        return await _page(post, project, typed, refusal)
    return page(
        "key-made.html", 201, visit=post, project=project, tab="keys", title="A new key", key=key, secret=secret
    )


@router.get("/projects/{project_id}/keys/{key_id}/revoke")
async def revoke_page(project_id: str, key_id: str, visit: Admin) -> Response:
    project = await visit.project(project_id)
    key = await call(visit.desk.keys.get, project.id, key_id)
    return page("key-revoke.html", visit=visit, project=project, tab="keys", title="Revoke a key", key=key)


@router.post("/projects/{project_id}/keys/{key_id}/revoke")
async def revoke(project_id: str, key_id: str, post: AdminPost) -> Response:
    project = await post.project(project_id)
    key = await call(post.desk.keys.get, project.id, key_id)
    await call(post.desk.keys.revoke, key.id, actor=post.person.email)
    return see(f"/projects/{project.id}/keys")


async def _page(visit: Visit, project: Project, typed: dict[str, str], refusal: Refusal | None = None) -> Response:
    found, now = await call(visit.desk.keys.of_project, project.id), clock.now()
    rows = [Row(key, *state_of(key, now)) for key in found]
    return page(
        "keys.html",
        refusal=refusal,
        visit=visit,
        project=project,
        tab="keys",
        title="API keys",
        open=[row for row in rows if row.key.is_open],
        ended=[row for row in rows if not row.key.is_open],
        typed=typed,
        next_id=new_id("key"),
        expiries=EXPIRIES,
        uses=USES,
        per_hour=visit.desk.keys.limit.quota,
        snippets=snippets_of(project, visit.desk.settings.base_url),
    )


def state_of(key: Key, now: int) -> tuple[str, str]:
    """How its badge looks, and what it says."""
    if key.revoked_at is not None:
        return "quiet", "revoked"
    if key.expires_at is None or key.expires_at > now + SOON:
        return "good", "active"
    if key.expires_at <= now:
        return "bad", "expired"
    days = -(-(key.expires_at - now) // clock.DAY)
    return "warn", f"expires in {days} day{'' if days == 1 else 's'}"


def _lifetime(choice: str) -> int | None:
    days = _chosen(choice, EXPIRIES)
    return None if days == "none" else int(days) * clock.DAY


def _chosen(value: str, among: dict[str, str]) -> str:
    if value not in among:
        raise InvalidRequest(f"'{value[:40]}' is not one of {', '.join(among.values())}.")
    return value
