"""The commands `copydesk key create|import|list|revoke`."""

import sys
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
from copydesk.core.clock import format_iso, format_iso_or_none, now

if TYPE_CHECKING:
    from copydesk.core.accounts.api_keys import ApiKey

app = typer.Typer(rich_markup_mode=None, help="Creates, lists and revokes a project's API keys.", no_args_is_help=True)


NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="What the key is for.")]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="SCOPE", help="read, write or events; can be repeated [default: read and write]."),
]
DEFAULT_LIFETIME, NEVER = "90d", "never"
ExpiresOption = Annotated[
    str, typer.Option("--expires", metavar="TIME", help="The lifetime, such as 12h, 90d or 2w, or never.")
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="ADDRESS",
        help="An IP address or CIDR network that may use the key; can be repeated [default: all].",
    ),
]


@app.command()
def create(
    project: ProjectOption,
    name: NameOption = "",
    scope: ScopeOption = None,
    expires: ExpiresOption = DEFAULT_LIFETIME,
    allow: AllowOption = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="PREFIX", help="desk_, or one of COPYDESK_EXTRA_KEY_PREFIXES.")
    ] = "desk_",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the key.")] = False,
    json: JsonOption = False,
) -> None:
    """Creates an API key and shows it once."""
    with open_configured_desk() as desk:
        key, secret = desk.keys.create(
            find_project(desk, project).id,
            name=name,
            scopes=scope or (),
            expires_in=_parse_expiry(expires),
            allow=allow or (),
            prefix=prefix,
            actor=current_actor(),
        )
    facts = {"id": key.id, "key": secret, **_key_to_dict(key)}
    print_once("key", secret, facts, quiet=quiet, json=json, note=_describe_expiry(key))


@app.command("import")
def import_key(
    project: ProjectOption,
    name: NameOption = "",
    scope: ScopeOption = None,
    expires: ExpiresOption = NEVER,
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Stores a key that another service created, so that its clients keep working.

    Reads the key from standard input or a hidden prompt. Its prefix must be in COPYDESK_EXTRA_KEY_PREFIXES.
    """
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        secret = typer.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
        key, _ = desk.keys.create(
            project_id,
            name=name,
            scopes=scope or (),
            expires_in=_parse_expiry(expires),
            allow=allow or (),
            imported=secret.strip(),
            actor=current_actor(),
        )
    if json:
        print_json(_key_to_dict(key))
    else:
        typer.echo(f"Imported {key.id}.")


@app.command("list")
def list_keys(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists a project's keys, newest first."""
    with open_configured_desk() as desk:
        keys = desk.keys.list_for_project(find_project(desk, project).id)
    if json:
        print_json([_key_to_dict(key) for key in keys])
    else:
        rows = [
            (k.id, k.name, k.hint + "…", "+".join(k.scopes), _describe_state(k), format_iso_or_none(k.last_used_at))
            for k in keys
        ]
        print_table(("key", "name", "starts with", "scopes", "state", "last used"), rows, "This project has no keys.")


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key ID (key_…), not the key itself.")],
    project: Annotated[
        str,
        typer.Option("--project", metavar="PROJECT", help="Only if the key belongs to this project: its ID or name."),
    ] = "",
    json: JsonOption = False,
) -> None:
    """Revokes a key, immediately and permanently."""
    with open_configured_desk() as desk:
        if project:
            desk.keys.get(find_project(desk, project).id, key)
        revoked = desk.keys.revoke(key, actor=current_actor())
    if json:
        print_json(_key_to_dict(revoked))
    else:
        typer.echo(f"Revoked {revoked.id}.")


def _parse_expiry(text: str) -> int | None:
    """Returns the lifetime in milliseconds, or None for a key that never expires."""
    from copydesk.core.accounts.api_keys import parse_lifetime

    return None if text.strip() == NEVER else parse_lifetime(text)


def _describe_expiry(key: "ApiKey") -> str:
    if key.expires_at is None:
        return "The key never expires."
    return f"The key expires on {format_iso(key.expires_at)[:10]}. To choose another lifetime, use --expires."


def _key_to_dict(key: "ApiKey") -> dict[str, Any]:
    return {
        "id": key.id,
        "projectId": key.project_id,
        "name": key.name,
        "hint": key.hint,
        "scopes": list(key.scopes),
        "allow": list(key.allow),
        "createdAt": format_iso(key.created_at),
        "expiresAt": format_iso_or_none(key.expires_at),
        "lastUsedAt": format_iso_or_none(key.last_used_at),
        "revokedAt": format_iso_or_none(key.revoked_at),
    }


def _describe_state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "active"
    return "expired" if key.expires_at <= now() else f"until {format_iso(key.expires_at)[:10]}"
