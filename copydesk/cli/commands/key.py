"""copydesk key create|list|revoke"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import AsJson, InProject, actor, print_facts, print_json, print_table, the_desk
from copydesk.core.clock import iso, iso_or_none, now

if TYPE_CHECKING:
    from copydesk.core.accounts.api_keys import Key

app = typer.Typer(rich_markup_mode=None, help="Admin API keys of a project.", no_args_is_help=True)


@app.command()
def create(
    project: InProject,
    name: Annotated[str, typer.Option("--name", help="What it is for.")] = "",
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="read, write or events [default: read and write].")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Its life: 12h, 90d, 2w [default: no end].")] = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="An address or CIDR network it may be used from.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Makes an API key and shows it, this once."""
    from copydesk.core.accounts.api_keys import lifetime

    with the_desk() as desk:
        key, secret = desk.keys.create(
            project,
            name=name,
            scopes=scope or (),
            expires_in=lifetime(expires) if expires else None,
            allow=allow or (),
            actor=actor(),
        )
    facts = {"id": key.id, "key": secret, **_facts(key)}
    if json:
        print_json(facts)
    else:
        print_facts(facts)
        typer.echo("\nKeep the key now: it is not shown again.", err=True)


@app.command("list")
def list_keys(project: InProject, json: AsJson = False) -> None:
    """Lists a project's keys, newest first."""
    with the_desk() as desk:
        desk.projects.get(project)
        keys = desk.keys.of_project(project)
    if json:
        print_json([_facts(key) for key in keys])
    else:
        rows = [(k.id, k.name, k.hint + "…", "+".join(k.scopes), _state(k), iso_or_none(k.last_used_at)) for k in keys]
        print_table(("key", "name", "begins", "scopes", "state", "last used"), rows, "This project has no keys.")


@app.command()
def revoke(key: Annotated[str, typer.Argument(help="The key's id, not the key itself.")], json: AsJson = False) -> None:
    """Revokes a key, at once and for good."""
    with the_desk() as desk:
        revoked = desk.keys.revoke(key, actor=actor())
    if json:
        print_json(_facts(revoked))
    else:
        typer.echo(f"{revoked.id} is revoked.")


def _facts(key: "Key") -> dict[str, Any]:
    return {
        "id": key.id,
        "projectId": key.project_id,
        "name": key.name,
        "hint": key.hint,
        "scopes": list(key.scopes),
        "allow": list(key.allow),
        "createdAt": iso(key.created_at),
        "expiresAt": iso_or_none(key.expires_at),
        "lastUsedAt": iso_or_none(key.last_used_at),
        "revokedAt": iso_or_none(key.revoked_at),
    }


def _state(key: "Key") -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "active"
    return "expired" if key.expires_at <= now() else f"until {iso(key.expires_at)[:10]}"
