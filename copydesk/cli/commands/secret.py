"""copydesk secret set|list|remove"""

import sys
from typing import Annotated

import typer

from copydesk.cli.output import AsJson, InProject, actor, print_json, print_table, the_desk
from copydesk.core.clock import iso

app = typer.Typer(
    rich_markup_mode=None,
    help="A project's sealed secrets: forge tokens and model keys, encrypted and never shown again.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="forge_token, app_key, webhook_secret or model_key_PROVIDER.")]


@app.command("set")
def set_secret(name: Name, project: InProject) -> None:
    """Seals a secret, read from standard input or typed unseen; never from the command line, where others see it."""
    with the_desk() as desk:
        desk.projects.get(project)
        desk.secrets.checked_name(name)
        value = typer.prompt(name, hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
        desk.secrets.set(project, name, value, actor=actor())
    typer.echo(f"Sealed {name}.")


@app.command("list")
def list_secrets(project: InProject, json: AsJson = False) -> None:
    """Lists which secrets there are, and when each was set; never their values."""
    with the_desk() as desk:
        desk.projects.get(project)
        found = desk.secrets.names(project)
    if json:
        print_json([{"name": name, "updatedAt": iso(at)} for name, at in found.items()])
    else:
        print_table(("secret", "set"), [(name, iso(at)) for name, at in found.items()], "There are no secrets yet.")


@app.command()
def remove(name: Name, project: InProject) -> None:
    """Deletes a secret."""
    with the_desk() as desk:
        desk.projects.get(project)
        desk.secrets.remove(project, name, actor=actor())
    typer.echo(f"Removed {name}.")
