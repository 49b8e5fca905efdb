"""The commands `copydesk secret set|list|remove`."""

import sys
from typing import Annotated

import typer

from copydesk.cli.output import JsonOption, ProjectOption, current_actor, open_configured_desk, print_json, print_table
from copydesk.cli.project_lookup import find_project
from copydesk.core.clock import format_iso

app = typer.Typer(
    rich_markup_mode=None,
    help="Stores a project's forge token and model keys. They are encrypted and never shown again.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(help="forge_token, app_key, signing_key, webhook_secret or model_key_PROVIDER.")
]


@app.command("set")
def set_secret(name: NameArgument, project: ProjectOption) -> None:
    """Stores a secret, encrypted.

    Reads the value from standard input or a hidden prompt, because other users can see the command line.
    """
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        desk.secrets.validate_name(name)
        value = typer.prompt(name, hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
        desk.secrets.set(project_id, name, value, actor=current_actor())
    typer.echo(f"Stored {name}.")


@app.command("list")
def list_secrets(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists the names of the secrets, and when each was set."""
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        secrets = desk.secrets.read_update_times(project_id)
    if json:
        print_json([{"name": name, "updatedAt": format_iso(at)} for name, at in secrets.items()])
    else:
        print_table(
            ("secret", "set"), [(name, format_iso(at)) for name, at in secrets.items()], "There are no secrets yet."
        )


@app.command()
def remove(name: NameArgument, project: ProjectOption) -> None:
    """Deletes a secret."""
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        desk.secrets.remove(project_id, name, actor=current_actor())
    typer.echo(f"Removed {name}.")
