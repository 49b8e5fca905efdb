"""The page of links that share a project's analytics: the list, a form to create one, and a button to revoke one."""

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.ids import new_id
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.sharing.share_links import BADGE, DEFAULT_PARTS, PARTS, ShareLink
from copydesk.web.dashboard.auth.access import AdminPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()
PART_LABELS = {
    "overview": "Totals and chart",
    "pages": "Pages",
    "agents": "Agents",
    "missing": "Missing pages",
    "searches": "Searches, with what readers typed",
}
EXPIRY_LABELS = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "1 year", "none": "Never"}


@router.get("/projects/{project_id}/sharing")
async def sharing_page(request: Request, project_id: str, signed_in: ViewerRequest) -> Response:
    settings = signed_in.desk.settings
    message = read_message(request, settings)
    project = await signed_in.get_project(project_id)
    typed = {"name": "", "expiry": "none", "parts": list(DEFAULT_PARTS), "use": "pages"}
    response = await _render_sharing_page(signed_in, project, typed, message=message)
    if message:
        delete_message(response, settings)
    return response


@router.post("/projects/{project_id}/sharing")
async def create_share(project_id: str, post: AdminPost) -> Response:
    """Creates a link and shows it in the response, so that it is never in a cookie or stored.

    The form contains the id of the new link, so that a reload of the response creates no second one."""
    project = await post.get_project(project_id)
    form = post.form
    typed = {
        "name": form.get("name"),
        "expiry": form.get("expiry"),
        "parts": form.get_all("part"),
        "use": form.get("use"),
    }
    try:
        created = await run_in_thread(
            post.desk.sharing.links.create,
            project.id,
            parts=_choose_parts(form.get("use"), form.get_all("part")),
            name=form.get("name"),
            expires_in=_parse_lifetime(form.get("expiry")),
            link_id=form.get("id"),
            actor=post.person.email,
        )
    except RequestError as error:
        return await _render_sharing_page(post, project, typed, error)
    url = post.desk.settings.base_url + created.link.path(created.token)
    return render_page(
        "share-made.html",
        201,
        {"Referrer-Policy": "no-referrer"},
        signed_in=post,
        project=project,
        tab="readership",
        title="Link created",
        link=created.link,
        url=url,
        snippets=build_badge_snippets(url, project.name) if created.link.is_badge else {},
    )


@router.post("/projects/{project_id}/sharing/{share_id}/revoke")
async def revoke_share(project_id: str, share_id: str, post: AdminPost) -> Response:
    project = await post.get_project(project_id)
    link = await run_in_thread(post.desk.sharing.links.revoke, project.id, share_id, actor=post.person.email)
    message = f"Revoked {link.name}. It shows nothing anymore."
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/sharing", message)


def build_badge_snippets(url: str, project_name: str) -> dict[str, str]:
    """Returns what to paste into a page, by language. The name is escaped for each."""
    alt = f"Visitors of {project_name} in the last 30 days"
    markdown_alt = "".join(f"\\{char}" if char in r"\[]`*_<>" else char for char in alt)
    html_alt = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    address = f"{url}?metric=visitors&days=30"
    html_address = address.replace("&", "&amp;")
    return {
        "Markdown": f"![{markdown_alt}]({address})",
        "HTML": f'<img src="{html_address}" alt="{html_alt}" height="20">',
        "JSON": address.replace("badge.svg", "number.json"),
    }


def _choose_parts(use: str, parts: list[str]) -> list[str]:
    if use == BADGE:
        return [BADGE]
    if not parts:
        raise InvalidRequest("Choose at least one part to share.")
    if BADGE in parts:
        raise InvalidRequest("A badge needs a link of its own.")
    return parts


def _parse_lifetime(choice: str) -> int | None:
    if choice not in EXPIRY_LABELS:
        raise InvalidRequest(f"Choose when the link expires: {', '.join(EXPIRY_LABELS.values())}.")
    return None if choice == "none" else int(choice) * clock.DAY


def describe_parts(link: ShareLink) -> str:
    return "Badge" if link.is_badge else ", ".join(PART_LABELS[part].partition(",")[0] for part in link.parts)


async def _render_sharing_page(
    signed_in: SignedInRequest,
    project: Project,
    typed: Mapping[str, object],
    error: RequestError | None = None,
    message: str = "",
) -> Response:
    links = await run_in_thread(signed_in.desk.sharing.links.list_for_project, project.id)
    return render_page(
        "sharing.html",
        signed_in=signed_in,
        project=project,
        tab="readership",
        title="Sharing",
        links=[(link, describe_parts(link)) for link in links if link.is_active],
        ended=[(link, describe_parts(link)) for link in links if not link.is_active],
        typed=typed,
        fault=error,
        message=message,
        parts={part: PART_LABELS[part] for part in PARTS},
        expiries=EXPIRY_LABELS,
        next_id=new_id("share"),
    )
