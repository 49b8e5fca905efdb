"""The commands `copydesk person invite|list|role|access|remove|reset|first-link`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    current_actor,
    fail,
    make_printable,
    open_configured_desk,
    print_json,
    print_once,
    print_table,
)
from copydesk.cli.project_lookup import find_project
from copydesk.core.clock import format_iso, now
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.core.accounts.person import Person
    from copydesk.desk import Desk

app = typer.Typer(rich_markup_mode=None, help="Manages the people who sign in to the dashboard.", no_args_is_help=True)

EmailArgument = Annotated[str, typer.Argument(help="The person's email address.")]


@app.command()
def invite(
    email: EmailArgument,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="viewer, editor, admin; or none, to give projects later.")
    ] = "viewer",
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="PROJECT", help="Give the role in this project only: its ID or name."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Creates an invitation link. The person opens it to create their account. It works once, within 7 days."""
    with open_configured_desk(create=True) as desk:
        facts: dict[str, Any] = {"email": email.strip().lower(), "role": role}
        if project is None:
            secret = desk.people.invite(email, role, actor=current_actor())
        else:
            project_id = find_project(desk, project).id
            secret = desk.people.invite_to_project(email, project_id, role, actor=current_actor())
            facts["projectId"] = project_id
        _print_link(desk, secret, facts, json)


@app.command("list")
def list_people(
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="PROJECT", help="Only people who can see this project: its ID or name."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Lists the people who have an account, their roles, and how many valid keys each has created."""
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id if project else None
        roles = desk.people.project_roles.load_all()
        people = [replace(person, project_roles=roles.get(person.id, {})) for person in desk.people.all()]
        key_counts = desk.people.count_keys_by_creator()
        names = {each.id: each.name for each in desk.projects.all()}
        location = desk.settings.database_location
    people = [person for person in people if project_id is None or person.sees(project_id)]
    facts = [_person_to_dict(person, key_counts.get(person.email, 0)) for person in people]
    if json:
        print_json(facts)
        return
    rows = [
        (
            *(fact[name] for name in ("email", "name", "role", "createdAt", "liveKeys")),
            ", ".join(f"{names.get(each, each)}: {role}" for each, role in fact["projectRoles"].items()),
        )
        for fact in facts
    ]
    nobody = f"There are no accounts yet in {location}." if project_id is None else "No one can see this project."
    print_table(("email", "name", "role", "since", "keys", "projects"), rows, nobody)


@app.command("role")
def change_role(
    email: EmailArgument,
    role: Annotated[str, typer.Argument(help="viewer, editor or admin; or none, for single projects only.")],
    keep_keys: Annotated[
        bool, typer.Option("--keep-keys", help="Do not revoke the keys that the person created.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Changes a person's role in all projects, at once. Revokes the keys of a person who was an administrator."""
    with open_configured_desk() as desk:
        person = desk.people.get_by_email(email)
        loses_keys = person.role == "admin" and role != "admin" and not keep_keys
        if loses_keys and not yes and _print_created_keys(desk, person):
            typer.confirm(f"Change the role of {person.email} to {role} and revoke these keys?", abort=True, err=True)
        revoked = desk.people.change_role(person.id, role, actor=current_actor(), keep_keys=keep_keys)
    if json:
        print_json({"email": person.email, "role": role, "keysRevoked": revoked})
    else:
        typer.echo(f"Changed the role of {person.email} to {role}. Revoked {pluralize(revoked, 'key')}.")


@app.command("access")
def set_project_role(
    email: EmailArgument,
    role: Annotated[str, typer.Argument(help="viewer, editor or admin; or none, to take the access.")],
    project: ProjectOption,
    keep_keys: Annotated[
        bool, typer.Option("--keep-keys", help="Do not revoke the keys that the person created in the project.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Gives a person a role in one project, changes it or takes it, at once.

    Revokes the keys that a person created who stops being an administrator of the project.
    """
    with open_configured_desk() as desk:
        person = desk.people.get_by_email(email)
        project_id = find_project(desk, project).id
        revoked = desk.people.project_roles.set_role(
            person.id, project_id, role, actor=current_actor(), keep_keys=keep_keys
        )
    if json:
        print_json({"email": person.email, "projectId": project_id, "role": role, "keysRevoked": revoked})
    else:
        typer.echo(f"Set the role of {person.email} in {project_id} to {role}. Revoked {pluralize(revoked, 'key')}.")
        if person.role not in ("none", "admin"):
            typer.echo(f"{person.email} also has the role {person.role} in all projects.", err=True)


@app.command()
def remove(
    email: EmailArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Removes a person. Ends their sessions and revokes the keys that they created, permanently."""
    with open_configured_desk() as desk:
        person = desk.people.get_by_email(email)
        if not yes:
            keys = _print_created_keys(desk, person)
            question = f"Remove {person.email} and revoke {pluralize(keys, 'valid key')} that they created?"
            typer.confirm(question, abort=True, err=True)
        revoked = desk.people.remove(person.id, actor=current_actor())
    if json:
        print_json({"email": person.email, "keysRevoked": revoked})
    else:
        typer.echo(f"Removed {person.email}. Revoked {pluralize(revoked, 'key')}.")


@app.command()
def reset(email: EmailArgument, json: JsonOption = False) -> None:
    """Creates a link for a person who forgot their password. The person opens it to set a new one."""
    with open_configured_desk() as desk:
        person = desk.people.get_by_email(email)
        secret = desk.people.create_reset_link(person, actor=current_actor())
        _print_link(desk, secret, {"email": person.email, "role": person.role}, json)


@app.command("first-link")
def create_first_link(json: JsonOption = False) -> None:
    """Creates a new link for the first administrator. The first start prints such a link, too."""
    with open_configured_desk(create=True) as desk:
        secret = desk.people.create_first_admin_link()
        if secret is None:
            fail("There is an administrator already. Use 'copydesk person invite' or 'copydesk person reset'.")
        _print_link(desk, secret, {"role": "admin"}, json)


def _print_link(desk: "Desk", secret: str, facts: dict[str, Any], json: bool) -> None:
    from copydesk.core.accounts.people import INVITATION_LIFETIME_MS

    link = f"{desk.settings.base_url}/join/{secret}"
    facts = {"link": link, **facts, "expiresAt": format_iso(now() + INVITATION_LIFETIME_MS)}
    print_once("link", link, facts, json=json)


def _print_created_keys(desk: "Desk", person: "Person") -> int:
    """Prints the valid keys that this person created to standard error. Returns how many there are."""
    created = desk.keys.list_created_by(person.email)
    for key, project_name in created:
        used = f"last used {format_iso(key.last_used_at)}" if key.last_used_at else "never used"
        scopes = "+".join(key.scopes)
        typer.echo(make_printable(f"{key.id}  {key.name}  {key.hint}…  {scopes}  {project_name}  {used}"), err=True)
    return len(created)


def _person_to_dict(person: "Person", keys: int) -> dict[str, Any]:
    return {
        "id": person.id,
        "email": person.email,
        "name": person.name,
        "role": person.role,
        "createdAt": format_iso(person.created_at),
        "liveKeys": keys,
        "projectRoles": dict(person.project_roles),
    }
