"""The commands `copydesk project create|list|show|set|check|delete|audit`."""

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    current_actor,
    make_printable,
    open_configured_desk,
    print_json,
    print_table,
)
from copydesk.cli.project_lookup import find_project
from copydesk.cli.project_output import print_project, project_to_json
from copydesk.core.clock import format_iso
from copydesk.core.errors import InvalidRequest, ProjectNotFound
from copydesk.core.projects.privacy_choices import PRIVACY_CHOICES

if TYPE_CHECKING:
    from copydesk.core.projects.projects import Project
    from copydesk.desk import Desk

ADDRESS_FIELDS = ("repository", "forge")
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print only the project ID.")]

app = typer.Typer(
    rich_markup_mode=None,
    help="Creates, shows, changes and deletes projects. Each project has one documentation repository.",
    no_args_is_help=True,
)


def _describe_privacy() -> str:
    """Returns the help of --privacy: each choice with what it means."""
    choices = " ".join(f"{choice.name}: {choice.consequence}" for choice in PRIVACY_CHOICES)
    return f"How long a visitor is recognized: daily, monthly or lasting. {choices}"


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The project's name.")],
    repo: Annotated[
        str,
        typer.Option(
            "--repo", metavar="ADDRESS", help="A path, or a file://, http:// or https:// URL without credentials."
        ),
    ],
    ref: Annotated[
        str | None,
        typer.Option("--ref", metavar="BRANCH", help="The branch that jobs start from [default: the default branch]."),
    ] = None,
    forge: Annotated[
        str | None,
        typer.Option(
            "--forge",
            metavar="FORGE",
            help="github, gitlab, gitea, forgejo or local [default: detected from the URL, or local].",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The model for its jobs [default: COPYDESK_MODEL].")
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env", metavar="VARIABLE", help="The environment variable that holds the repository's token."
        ),
    ] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the token from standard input and store it encrypted.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check", help="Check that Copydesk can use the repository; --no-check requires --ref."
        ),
    ] = True,
    forbid_private: Annotated[
        bool, typer.Option("--forbid-private", help="Refuse a repository on this machine or at a private IP address.")
    ] = False,
    root: Annotated[
        str, typer.Option("--root", metavar="FOLDER", help="The documentation folder, if not the repository root.")
    ] = "",
    privacy: Annotated[
        str | None, typer.Option("--privacy", metavar="PERIOD", help=f"{_describe_privacy()} [default: lasting].")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A project setting; can be repeated. See `copydesk project set --help`."
        ),
    ] = None,
    allow_same_name: Annotated[
        bool, typer.Option("--allow-same-name", help="Create the project even if another one has this name.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Creates a project. First checks that Copydesk can use its repository."""
    from copydesk.jobs.projects.project_setup import NewProject, ProjectNameTaken, create_project

    if not check and ref is None:
        raise InvalidRequest("--no-check requires --ref.")
    options = _parse_assignments(policy or [])
    if privacy is not None:
        options["privacy"] = privacy
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
        options=options,
        allow_same_name=allow_same_name,
    )
    with open_configured_desk(create=True) as desk:
        try:
            project = create_project(
                desk.projects, desk.secrets, new_project, verify_repository=check, actor=current_actor()
            )
        except ProjectNameTaken as error:
            raise InvalidRequest(f"{error} Choose another name, or add --allow-same-name.") from None
        warnings = _find_warnings(desk, project, is_new=True) if check else []
    print_project(project, json, quiet)
    _print_warnings(warnings)


@app.command("list")
def list_projects(json: JsonOption = False) -> None:
    """Lists all projects."""
    with open_configured_desk() as desk:
        projects = desk.projects.all()
        location = desk.settings.database_location
    if json:
        print_json([project_to_json(project) for project in projects])
    else:
        rows = [(p.id, p.name, p.repository, p.ref) for p in projects]
        print_table(
            ("project", "name", "repository", "branch"),
            rows,
            f"There are no projects yet in {location}. Create one with: copydesk project create",
        )


@app.command()
def show(
    project: ProjectOption,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Shows one project."""
    with open_configured_desk() as desk:
        print_project(find_project(desk, project), json, quiet)


@app.command("set")
def set_options(
    values: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE", help="Can be repeated. Separate the items of a list with commas."),
    ],
    project: ProjectOption,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Check that a new branch or documentation folder exists, and warn."),
    ] = True,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="With repository=: read its token from standard input.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Changes a project's settings.

    The settings are name, ref, root, model, token_env, and those for pull requests and analytics. repository=ADDRESS,
    with forge=FORGE where it is not detected, moves the project to another address of the same repository.
    For example: draft=true, labels=docs,agent, reviewers=ada, required_fields=title,description,
    check_command="mkdocs build --strict", on_check_failure=fail, sign_off=true, origins=https://docs.example.com,
    base_path=/docs, ai_classes=assistant,search, privacy=monthly. `show` lists all settings and their values.
    """
    from copydesk.core.projects.projects import FIELDS_IN_REPOSITORY
    from copydesk.jobs.projects.option_checks import validate_options

    assignments = _parse_assignments(values)
    address: dict[str, str] = {name: assignments.pop(name) for name in ADDRESS_FIELDS if name in assignments}
    if (token_stdin or "forge" in address) and "repository" not in address:
        raise InvalidRequest("forge=… and --token-stdin need repository=….")
    validate_options(assignments)
    with open_configured_desk() as desk:
        changed = find_project(desk, project)
        if address:
            changed = _move_project(desk, changed, address, sys.stdin.read().strip() if token_stdin else None)
        if assignments:
            changed = desk.projects.change(changed.id, assignments, actor=current_actor())
        changes_place = bool(address or assignments.keys() & FIELDS_IN_REPOSITORY)
        warnings = _find_warnings(desk, changed) if check and changes_place else []
        same = desk.projects.find_same_name(changed) if "name" in assignments else None
    if same is not None:
        warnings.append(f"Another project is named '{same.name}' too: {same.id}. Use the IDs to tell them apart.")
    print_project(changed, json)
    _print_warnings(warnings)


@app.command()
def check(project: ProjectOption, json: JsonOption = False) -> None:
    """Checks that jobs can use the project's repository, branch and documentation folder.

    The exit code is 1 if they cannot.
    """
    from copydesk.jobs.projects.repository_warnings import describe_checked_out_branch, find_repository_warnings

    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        problems = find_repository_warnings(loaded_project, desk.secrets.all(loaded_project.id))
    note = describe_checked_out_branch(loaded_project)
    if json:
        print_json({"ok": not problems, "problems": problems, "note": note})
    elif not problems:
        typer.echo(f"Access works. Jobs start from {loaded_project.ref}.")
    if not json:
        _print_warnings([*problems, note] if note else problems)
    if problems:
        raise typer.Exit(1)


@app.command()
def delete(
    project: ProjectOption,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Deletes a project with its jobs, keys, secrets, page views and feedback, permanently.

    Stops running jobs. Branches and pull requests in the repository stay.
    """
    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        if not yes:
            typer.confirm(
                f"Permanently delete {loaded_project.name} ({loaded_project.id}) with its jobs, keys, secrets, page "
                "views and feedback?",
                abort=True,
                err=True,
            )
        has_deleted_views = desk.delete_project(loaded_project, actor=current_actor())
    if json:
        print_json({"projectId": loaded_project.id, "viewsDeleted": has_deleted_views})
    else:
        typer.echo(f"Deleted {make_printable(loaded_project.name)} ({loaded_project.id}).")
    if not has_deleted_views:
        typer.echo("The analytics store is unavailable. A worker deletes the page views once it is back.", err=True)


@app.command("audit")
def show_audit_log(
    project: ProjectOption,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The number of entries.")] = 100,
    json: JsonOption = False,
) -> None:
    """Shows who changed the project or its keys, and when. Newest first."""
    with open_configured_desk() as desk:
        entries = _list_audit_entries(desk, project, limit)
    for entry in entries:
        entry["at"] = format_iso(entry["at"])
    if json:
        print_json([{name: value for name, value in entry.items() if name != "project_id"} for entry in entries])
    else:
        rows = [(e["at"], e["actor"], e["action"], e["subject"]) for e in entries]
        print_table(("time", "actor", "action", "subject"), rows, "There are no entries yet.")


def _move_project(desk: "Desk", project: "Project", address: dict[str, str], token: str | None) -> "Project":
    from copydesk.jobs.projects.repository_move import NewAddress, move_repository

    new = NewAddress(address["repository"], address.get("forge"), token)
    return move_repository(desk.projects, desk.secrets, project, new, actor=current_actor())


def _list_audit_entries(desk: "Desk", id_or_name: str, limit: int) -> list[dict[str, Any]]:
    """Returns the entries of a project, which may be deleted if it is given by its ID."""
    from copydesk.core import audit_log

    try:
        project_id = find_project(desk, id_or_name).id
    except ProjectNotFound:
        entries = audit_log.list_entries(desk.database, id_or_name, limit) if id_or_name else []
        if not entries:
            raise
        return entries
    return audit_log.list_entries(desk.database, project_id, limit)


def _find_warnings(desk: "Desk", project: "Project", *, is_new: bool = False) -> list[str]:
    """Returns what is unusual about the project's repository, branch and documentation folder.

    The branch of a new project was checked already.
    """
    from copydesk.jobs.projects import repository_warnings

    find = repository_warnings.find_folder_warnings if is_new else repository_warnings.find_repository_warnings
    warnings = find(project, desk.secrets.all(project.id))
    checked_out = repository_warnings.describe_checked_out_branch(project)
    return [*warnings, checked_out] if checked_out else warnings


def _print_warnings(warnings: list[str]) -> None:
    for warning in warnings:
        typer.echo(f"\nNote: {make_printable(warning)}", err=True)


def _parse_assignments(values: list[str]) -> dict[str, str]:
    for value in values:
        if "=" not in value:
            raise InvalidRequest(f"'{value[:80]}' is not in the form NAME=VALUE.")
    pairs = (value.split("=", 1) for value in values)
    return {_normalize_setting_name(name): value.strip() for name, value in pairs}


def _normalize_setting_name(name: str) -> str:
    """Returns the name with underscores. Also accepts hyphens, and camel case as in JSON."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", name.strip().replace("-", "_"))
