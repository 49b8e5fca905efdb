"""The commands `copydesk share create|list|revoke`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    current_actor,
    open_configured_desk,
    print_json,
    print_once,
    print_table,
)
from copydesk.cli.project_lookup import find_project
from copydesk.core.clock import format_iso, format_iso_or_none

if TYPE_CHECKING:
    from copydesk.sharing.share_links import ShareLink

app = typer.Typer(
    rich_markup_mode=None,
    help="Shares a project's analytics by public links and badges, read-only.",
    no_args_is_help=True,
)


@app.command()
def create(
    project: ProjectOption,
    show: Annotated[
        list[str] | None,
        typer.Option(
            "--show",
            metavar="PART",
            help="overview, pages, agents, missing or searches; can be repeated. Or badge, alone "
            "[default: overview, pages and agents].",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the link is for.")] = "",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="The lifetime, such as 12h, 90d or 2w [default: until revoked]."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the URL.")] = False,
    json: JsonOption = False,
) -> None:
    """Creates a link that everyone can open without signing in, and shows it once."""
    from copydesk.core.accounts.api_keys import parse_lifetime

    with open_configured_desk() as desk:
        created = desk.sharing.links.create(
            find_project(desk, project).id,
            parts=show or (),
            name=name,
            expires_in=parse_lifetime(expires) if expires else None,
            actor=current_actor(),
        )
        url = desk.settings.base_url + created.link.path(created.token)
    print_once("URL", url, {"url": url, **_link_to_dict(created.link)}, quiet=quiet, json=json)


@app.command("list")
def list_links(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists a project's links, newest first. Their URLs are not stored."""
    with open_configured_desk() as desk:
        links = desk.sharing.links.list_for_project(find_project(desk, project).id)
    if json:
        print_json([_link_to_dict(link) for link in links])
        return
    rows = [
        (link.id, link.name, "+".join(link.parts), _describe_state(link), format_iso_or_none(link.last_used_at))
        for link in links
    ]
    print_table(("link", "name", "shows", "state", "last used"), rows, "This project has no links.")


@app.command()
def revoke(
    link: Annotated[str, typer.Argument(help="The link's ID (share_…).")],
    project: ProjectOption,
    json: JsonOption = False,
) -> None:
    """Revokes a link, immediately and permanently."""
    with open_configured_desk() as desk:
        revoked = desk.sharing.links.revoke(find_project(desk, project).id, link, actor=current_actor())
    if json:
        print_json(_link_to_dict(revoked))
    else:
        typer.echo(f"Revoked {revoked.id}.")


def _link_to_dict(link: "ShareLink") -> dict[str, Any]:
    return {
        "id": link.id,
        "projectId": link.project_id,
        "name": link.name,
        "parts": list(link.parts),
        "createdAt": format_iso(link.created_at),
        "expiresAt": format_iso_or_none(link.expires_at),
        "lastUsedAt": format_iso_or_none(link.last_used_at),
        "revokedAt": format_iso_or_none(link.revoked_at),
    }


def _describe_state(link: "ShareLink") -> str:
    if link.revoked_at is not None:
        return "revoked"
    if link.expires_at is None:
        return "active"
    return f"until {format_iso(link.expires_at)[:10]}" if link.is_active else "expired"
