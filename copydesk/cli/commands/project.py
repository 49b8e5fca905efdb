"""copydesk project create|list|show|set|audit"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import JsonOption, current_actor, open_configured_desk, print_facts, print_json, print_table
from copydesk.core.clock import format_iso
from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from copydesk.core.projects.projects import Project

app = typer.Typer(rich_markup_mode=None, help="Projects: a documentation repository each.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What people call it.")],
    repo: Annotated[str, typer.Option("--repo", help="A path, file:// or https:// address; no credentials in it.")],
    ref: Annotated[str | None, typer.Option("--ref", help="The branch jobs start from [default: its own].")] = None,
    forge: Annotated[
        str | None,
        typer.Option("--forge", help="github, gitlab, gitea, forgejo or local [default: by the address, else local]."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The model of its jobs [default: COPYDESK_MODEL].")
    ] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="The environment variable that holds the repository's token.")
    ] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read that token from standard input, and seal it.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Look whether the repository can be used; without it, name --ref."),
    ] = True,
    forbid_private: Annotated[
        bool, typer.Option("--forbid-private", help="Refuse a repository on this machine or a private address.")
    ] = False,
    root: Annotated[str, typer.Option("--root", help="The folder of the documentation, where it is not all.")] = "",
    policy: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="How pull requests are made and views counted; see `set`."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Creates a project, after looking whether its repository can be used."""
    from copydesk.jobs.projects.project_setup import NewProject, create_project

    if not check and ref is None:
        raise InvalidRequest("Without a look at the repository the branch must be named: --ref.")
    new_project = NewProject(
        name=name,
        repository=repo,
        ref=ref,
        root=root,
        forge=forge,
        model=model,
        token_env=token_env,
        token=sys.stdin.read().strip() if token_stdin else None,
        allow_private=not forbid_private,
        options=_parse_assignments(policy or []),
    )
    with open_configured_desk() as desk:
        project = create_project(
            desk.projects, desk.secrets, new_project, verify_repository=check, actor=current_actor()
        )
    _print_project(project, json)


@app.command("list")
def list_projects(json: JsonOption = False) -> None:
    """Lists all projects."""
    with open_configured_desk() as desk:
        projects = desk.projects.all()
    if json:
        print_json([_project_to_dict(project) for project in projects])
    else:
        rows = [(p.id, p.name, p.repository, p.ref) for p in projects]
        print_table(
            ("project", "name", "repository", "branch"), rows, "There is no project yet: copydesk project create"
        )


@app.command()
def show(project: Annotated[str, typer.Argument(help="The project's id.")], json: JsonOption = False) -> None:
    """Shows one project."""
    with open_configured_desk() as desk:
        _print_project(desk.projects.get(project), json)


@app.command("set")
def set_options(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    values: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="May be repeated; lists with commas between.")
    ],
    json: JsonOption = False,
) -> None:
    """Changes a project: name, ref, root, model, token_env, how its pull requests are made and its views counted.

    For instance: draft=true, labels=docs,agent, reviewers=ada, required_fields=title,description,
    check_command="mkdocs build --strict", on_findings=fail, sign_off=true, origins=https://docs.example.com,
    base_path=/docs, ai_classes=assistant,search, privacy=monthly. `show` lists all with their values.
    """
    from copydesk.jobs.projects.option_checks import validate_options

    assignments = _parse_assignments(values)
    validate_options(assignments)
    with open_configured_desk() as desk:
        _print_project(desk.projects.change(project, assignments, actor=current_actor()), json)


@app.command("audit")
def show_audit_log(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many entries.")] = 100,
    json: JsonOption = False,
) -> None:
    """Shows who changed the project or its keys, and when, newest first."""
    from copydesk.core import audit_log

    with open_configured_desk() as desk:
        desk.projects.get(project)
        entries = audit_log.list_entries(desk.database, project, limit)
    for entry in entries:
        entry["at"] = format_iso(entry["at"])
    if json:
        print_json([{name: value for name, value in entry.items() if name != "project_id"} for entry in entries])
    else:
        rows = [(e["at"], e["actor"], e["action"], e["subject"]) for e in entries]
        print_table(("at", "by", "what", "which"), rows, "Nothing was changed yet.")


def _parse_assignments(values: list[str]) -> dict[str, str]:
    for value in values:
        if "=" not in value:
            raise InvalidRequest(f"'{value[:80]}' is not NAME=VALUE.")
    pairs = (value.split("=", 1) for value in values)
    return {name.strip().replace("-", "_"): value.strip() for name, value in pairs}


def _print_project(project: "Project", json: bool) -> None:
    facts = _project_to_dict(project)
    if json:
        print_json(facts)
        return
    options = {**facts.pop("policy"), **facts.pop("collecting")}
    print_facts({**facts, **{name: ", ".join(v) if isinstance(v, list) else v for name, v in options.items()}})


def _project_to_dict(project: "Project") -> dict[str, Any]:
    return {
        "projectId": project.id,
        "siteId": project.site_id,
        "name": project.name,
        "repository": project.repository,
        "ref": project.ref,
        "root": project.root,
        "forge": project.forge,
        "model": project.model,
        "tokenEnv": project.token_env,
        "allowPrivate": project.allow_private,
        "policy": project.policy.model_dump(mode="json"),
        "collecting": project.collecting.model_dump(mode="json"),
        "createdAt": format_iso(project.created_at),
    }
