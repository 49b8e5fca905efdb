"""The commands `copydesk pull list|show|merge|close`, for pull requests of the forge `local`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    current_actor,
    open_configured_desk,
    print_facts,
    print_json,
    print_table,
)
from copydesk.cli.project_lookup import find_project
from copydesk.core.clock import format_iso

if TYPE_CHECKING:
    from copydesk.desk import Desk
    from copydesk.jobs.publish.forges.local import LocalPull

app = typer.Typer(
    rich_markup_mode=None,
    help="Shows, merges and closes local pull requests. Projects with the forge 'local' have them.",
    no_args_is_help=True,
)

NumberArgument = Annotated[int, typer.Argument(metavar="N", help="The number of the pull request.")]


@app.command("list")
def list_pulls(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists a project's pull requests, newest first."""
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        pulls = [_pull_to_dict(desk, pull) for pull in desk.pulls.list_for_project(project_id)]
    if json:
        print_json(pulls)
    else:
        rows = [(f["number"], f["state"], f["title"], f["link"]) for f in pulls]
        print_table(("#", "state", "title", "link"), rows, "No pull requests found.")


@app.command()
def show(number: NumberArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Shows a pull request and its diff."""
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        pull = desk.pulls.get_pull(project_id, number)
        _print_pull(desk, pull, json)
        if not json:
            sys.stdout.flush()
            sys.stdout.buffer.write(b"\n" + desk.jobs.diff(project_id, pull.job_id))


@app.command()
def merge(number: NumberArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Merges a pull request into its base branch and archives its job."""
    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        pull = desk.pulls.get_pull(loaded_project.id, number)
        if pull.state != "merged":  # the service may have noticed a merge with git first
            pull = desk.pulls.merge(pull, desk.open_mirror(loaded_project), current_actor())
        _print_pull(desk, pull, json)


@app.command()
def close(number: NumberArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Closes a pull request without merging it and archives its job."""
    with open_configured_desk() as desk:
        pull = desk.pulls.get_pull(find_project(desk, project).id, number)
        _print_pull(desk, desk.pulls.close(pull, current_actor()), json)


def _print_pull(desk: "Desk", pull: "LocalPull", json: bool) -> None:
    fields = _pull_to_dict(desk, pull)
    if json:
        print_json(fields)
    else:
        print_facts(fields)


def _pull_to_dict(desk: "Desk", pull: "LocalPull") -> dict[str, Any]:
    return {
        "number": pull.number,
        "state": pull.state,
        "title": pull.title,
        "branch": pull.branch,
        "base": pull.base,
        "job": pull.job_id,
        "link": desk.jobs.get(pull.project_id, pull.job_id).pr_link,
        "createdAt": format_iso(pull.created_at),
    }
