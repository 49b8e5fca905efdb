"""copydesk project create|list|show|audit"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import AsJson, actor, print_facts, print_json, print_table, the_desk
from copydesk.core.clock import iso
from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from copydesk.core.projects import Project

app = typer.Typer(rich_markup_mode=None, help="Projects: a documentation repository each.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What people call it.")],
    repo: Annotated[str, typer.Option("--repo", help="A path, file:// or https:// address; no credentials in it.")],
    ref: Annotated[str | None, typer.Option("--ref", help="The branch jobs start from [default: its own].")] = None,
    forge: Annotated[str, typer.Option("--forge", help="Where pull requests are opened.")] = "local",
    model: Annotated[
        str | None, typer.Option("--model", help="The model of its jobs [default: COPYDESK_MODEL].")
    ] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="The environment variable that holds the repository's token.")
    ] = None,
    forbid_private: Annotated[
        bool, typer.Option("--forbid-private", help="Refuse a repository on this machine or a private address.")
    ] = False,
    allow_path: Annotated[
        list[str] | None, typer.Option("--allow-path", help="A protected path that jobs may change, as a pattern.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Creates a project, after looking whether its repository can be read."""
    from copydesk.core.projects import Project, checked_repository
    from copydesk.jobs.agent.models import known_model

    if model is not None and not known_model(model):
        raise InvalidRequest(f"There is no model '{model}'.")
    wanted: dict[str, Any] = {
        "repository": checked_repository(repo),
        "forge": forge,
        "model": model,
        "token_env": token_env,
        "allow_private": not forbid_private,
        "allowed_paths": tuple(allow_path or ()),
    }
    probe = Project(id="", site_id="", name=name, ref=ref or "", created_at=0, **wanted)
    branch = _reachable_branch(probe, ref)
    with the_desk() as desk:
        project = desk.projects.create(name, ref=branch, actor=actor(), **wanted)
    _print(project, json)


@app.command("list")
def list_projects(json: AsJson = False) -> None:
    """Lists all projects."""
    with the_desk() as desk:
        found = desk.projects.all()
    if json:
        print_json([_facts(project) for project in found])
    else:
        rows = [(p.id, p.name, p.repository, p.ref) for p in found]
        print_table(
            ("project", "name", "repository", "branch"), rows, "There is no project yet: copydesk project create"
        )


@app.command()
def show(project: Annotated[str, typer.Argument(help="The project's id.")], json: AsJson = False) -> None:
    """Shows one project."""
    with the_desk() as desk:
        _print(desk.projects.get(project), json)


@app.command("audit")
def audit_log(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many entries.")] = 100,
    json: AsJson = False,
) -> None:
    """Shows who changed the project or its keys, and when, newest first."""
    from copydesk.core import audit

    with the_desk() as desk:
        desk.projects.get(project)
        entries = audit.entries(desk.database, project, limit)
    for entry in entries:
        entry["at"] = iso(entry["at"])
    if json:
        print_json([{name: value for name, value in entry.items() if name != "project_id"} for entry in entries])
    else:
        rows = [(e["at"], e["actor"], e["action"], e["subject"]) for e in entries]
        print_table(("at", "by", "what", "which"), rows, "Nothing was changed yet.")


def _reachable_branch(probe: "Project", ref: str | None) -> str:
    from copydesk.jobs.publish.repository import default_branch, git_for

    git = git_for(probe)
    if ref is None:
        return default_branch(git)
    if ref not in git.heads(f"refs/heads/{ref}"):
        raise InvalidRequest(f"The repository has no branch {ref}.")
    return ref


def _print(project: "Project", json: bool) -> None:
    (print_json if json else print_facts)(_facts(project))


def _facts(project: "Project") -> dict[str, Any]:
    return {
        "projectId": project.id,
        "siteId": project.site_id,
        "name": project.name,
        "repository": project.repository,
        "ref": project.ref,
        "forge": project.forge,
        "model": project.model,
        "tokenEnv": project.token_env,
        "allowPrivate": project.allow_private,
        "allowedPaths": list(project.allowed_paths),
        "createdAt": iso(project.created_at),
    }
