"""The API keys page: the project's ids, its keys and example snippets."""

import re
from dataclasses import dataclass

from fastapi import APIRouter, Response

from copydesk.core import clock
from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.ids import new_id
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.text.plurals import pluralize
from copydesk.web.dashboard.auth.access import AdminPost, AdminRequest, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.projects.snippets import build_snippets
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()
EXPIRY_LABELS = {"7": "7 days", "30": "30 days", "60": "60 days", "90": "90 days", "none": "Never"}
SCOPE_LABELS = {"write": "Read and write", "read": "Read only", "events": "Send events only"}
DEFAULT_FORM = {"name": "", "use": "write", "expiry": "90", "allow": ""}
EXPIRY_WARNING_MS = 7 * clock.DAY


@dataclass(frozen=True)
class KeyRow:
    key: ApiKey
    css_class: str
    state: str


@router.get("/projects/{project_id}/keys")
async def keys_page(project_id: str, signed_in: ViewerRequest) -> Response:
    return await _render_keys_page(signed_in, await signed_in.get_project(project_id), DEFAULT_FORM)


@router.post("/projects/{project_id}/keys")
async def create_key(project_id: str, post: AdminPost) -> Response:
    """Creates a key and shows it in the response, so that it is never in a URL, in a cookie or stored.

    The form contains the id of the new key. If the response is reloaded, the browser sends the form again, and the
    request fails because the id exists."""
    project = await post.get_project(project_id)
    typed = {name: post.form.get(name) for name in DEFAULT_FORM}
    try:
        key, secret = await run_in_thread(
            post.desk.keys.create,
            project.id,
            name=typed["name"],
            scopes=[_validate_choice(typed["use"], SCOPE_LABELS)],
            expires_in=_parse_lifetime(typed["expiry"]),
            allow=re.findall(r"[^\s,]+", typed["allow"]),
            key_id=post.form.get("id"),
            actor=post.person.email,
        )
    except RequestError as error:
        return await _render_keys_page(post, project, typed, error)
    return render_page(
        "key-made.html", 201, signed_in=post, project=project, tab="keys", title="Key created", key=key, secret=secret
    )


@router.get("/projects/{project_id}/keys/{key_id}/revoke")
async def revoke_page(project_id: str, key_id: str, signed_in: AdminRequest) -> Response:
    project = await signed_in.get_project(project_id)
    key = await run_in_thread(signed_in.desk.keys.get, project.id, key_id)
    return render_page("key-revoke.html", signed_in=signed_in, project=project, tab="keys", title="Revoke key", key=key)


@router.post("/projects/{project_id}/keys/{key_id}/revoke")
async def revoke_key(project_id: str, key_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    key = await run_in_thread(post.desk.keys.get, project.id, key_id)
    await run_in_thread(post.desk.keys.revoke, key.id, actor=post.person.email)
    return redirect(f"/projects/{project.id}/keys")


async def _render_keys_page(
    signed_in: SignedInRequest, project: Project, typed: dict[str, str], error: RequestError | None = None
) -> Response:
    api_keys = await run_in_thread(signed_in.desk.keys.list_for_project, project.id)
    now = clock.now()
    rows = [KeyRow(key, *describe_key_state(key, now)) for key in api_keys]
    return render_page(
        "keys.html",
        error=error,
        signed_in=signed_in,
        project=project,
        tab="keys",
        title="API keys",
        open=[row for row in rows if row.key.is_active],
        ended=[row for row in rows if not row.key.is_active],
        typed=typed,
        next_id=new_id("key"),
        expiries=EXPIRY_LABELS,
        uses=SCOPE_LABELS,
        per_hour=signed_in.desk.keys.limit.quota,
        snippets=build_snippets(project, signed_in.desk.settings.base_url),
    )


def describe_key_state(key: ApiKey, now: int) -> tuple[str, str]:
    """Returns the CSS class and the text of the key's badge."""
    if key.revoked_at is not None:
        return "quiet", "revoked"
    if key.expires_at is None or key.expires_at > now + EXPIRY_WARNING_MS:
        return "good", "active"
    if key.expires_at <= now:
        return "bad", "expired"
    days = -(-(key.expires_at - now) // clock.DAY)
    return "warn", f"expires in {pluralize(days, 'day')}"


def _parse_lifetime(choice: str) -> int | None:
    days = _validate_choice(choice, EXPIRY_LABELS)
    return None if days == "none" else int(days) * clock.DAY


def _validate_choice(value: str, choices: dict[str, str]) -> str:
    if value not in choices:
        raise InvalidRequest(f"'{value[:40]}' is not valid. Use one of: {', '.join(choices.values())}.")
    return value
