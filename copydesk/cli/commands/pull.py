"""copydesk pull list|show|merge|close, for pull requests of the forge `local`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import AsJson, InProject, actor, print_facts, print_json, print_table, the_desk
from copydesk.core.clock import iso

if TYPE_CHECKING:
    from copydesk.desk import Desk
    from copydesk.jobs.publish.forges.local import Pull

app = typer.Typer(
    rich_markup_mode=None, help="Pull requests that Copydesk itself keeps (forge: local).", no_args_is_help=True
)

Number = Annotated[int, typer.Argument(metavar="N", help="The pull request's number.")]


@app.command("list")
def list_pulls(project: InProject, json: AsJson = False) -> None:
    """Lists a project's pull requests, newest first."""
    with the_desk() as desk:
        desk.projects.get(project)
        found = [_facts(desk, pull) for pull in desk.pulls.of_project(project)]
    if json:
        print_json(found)
    else:
        rows = [(f["number"], f["state"], f["title"], f["link"]) for f in found]
        print_table(("#", "state", "title", "link"), rows, "There are no pull requests.")


@app.command()
def show(number: Number, project: InProject, json: AsJson = False) -> None:
    """Shows a pull request and its diff."""
    with the_desk() as desk:
        pull = desk.pulls.get(project, number)
        _print(desk, pull, json)
        if not json:
            sys.stdout.flush()
            sys.stdout.buffer.write(b"\n" + desk.jobs.diff(project, pull.job_id))


@app.command()
def merge(number: Number, project: InProject, json: AsJson = False) -> None:
    """Merges a pull request into its base branch and archives its job."""
    with the_desk() as desk:
        mirror = desk.mirror(desk.projects.get(project))
        _print(desk, desk.pulls.merge(desk.pulls.get(project, number), mirror, actor()), json)


@app.command()
def close(number: Number, project: InProject, json: AsJson = False) -> None:
    """Closes a pull request without merging it and archives its job."""
    with the_desk() as desk:
        _print(desk, desk.pulls.close(desk.pulls.get(project, number), actor()), json)


def _print(desk: "Desk", pull: "Pull", json: bool) -> None:
    (print_json if json else print_facts)(_facts(desk, pull))


def _facts(desk: "Desk", pull: "Pull") -> dict[str, Any]:
    return {
        "number": pull.number,
        "state": pull.state,
        "title": pull.title,
        "branch": pull.branch,
        "base": pull.base,
        "job": pull.job_id,
        "link": desk.jobs.get(pull.project_id, pull.job_id).pr_link,
        "createdAt": iso(pull.created_at),
    }
