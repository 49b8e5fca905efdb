"""The commands `copydesk context add|list|remove`."""

import sys
from typing import Annotated

import typer

from copydesk.cli.output import JsonOption, ProjectOption, current_actor, open_configured_desk, print_json, print_table
from copydesk.cli.project_lookup import find_project
from copydesk.core.clock import format_iso
from copydesk.jobs.projects.context_mirrors import ContextRepository
from copydesk.jobs.projects.context_repositories import NewContext

app = typer.Typer(
    rich_markup_mode=None,
    help="Manages the repositories that a project's agent may read. It never changes them.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(help="The name by which the agent and pull requests call it.")]


@app.command()
def add(
    name: NameArgument,
    project: ProjectOption,
    repo: Annotated[str, typer.Option("--repo", metavar="URL", help="The path or URL of the repository.")],
    ref: Annotated[
        str | None, typer.Option("--ref", metavar="BRANCH", help="The branch to read [default: the default branch].")
    ] = None,
    forge: Annotated[
        str | None,
        typer.Option(
            "--forge", metavar="FORGE", help="local, github, gitlab, gitea or forgejo [default: from the URL]."
        ),
    ] = None,
    token: Annotated[
        bool,
        typer.Option(
            "--token",
            help="Read a token for it from standard input or a hidden prompt. By default, the project's token is used "
            "if both are on the same host.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Adds a repository that the agent may read. It must be readable now."""
    with open_configured_desk() as desk:
        owner = find_project(desk, project)
        value = None
        if token:
            value = (typer.prompt("token", hide_input=True) if sys.stdin.isatty() else sys.stdin.read()).strip()
        context = desk.contexts.add(owner, NewContext(name, repo, ref, forge, value), actor=current_actor())
    if json:
        print_json(_to_json(context))
    else:
        typer.echo(f"Added {context.name}: {context.repository}, branch {context.ref}.")


@app.command("list")
def list_contexts(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists the context repositories of a project."""
    with open_configured_desk() as desk:
        contexts = desk.contexts.list(find_project(desk, project).id)
    if json:
        print_json([_to_json(context) for context in contexts])
        return
    rows = [(each.name, each.repository, each.ref, "own" if each.has_token else "") for each in contexts]
    print_table(("name", "repository", "branch", "token"), rows, "There are no context repositories yet.")


@app.command()
def remove(name: NameArgument, project: ProjectOption) -> None:
    """Removes a context repository and its token."""
    with open_configured_desk() as desk:
        desk.contexts.remove(find_project(desk, project).id, name, actor=current_actor())
    typer.echo(f"Removed {name}.")


def _to_json(context: ContextRepository) -> dict[str, object]:
    return {
        "name": context.name,
        "repository": context.repository,
        "ref": context.ref,
        "forge": context.forge,
        "hasToken": context.has_token,
        "createdAt": format_iso(context.created_at),
    }
