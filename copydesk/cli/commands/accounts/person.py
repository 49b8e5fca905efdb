"""The commands `copydesk person invite|list|role|remove|reset|link`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    current_actor,
    fail,
    make_printable,
    open_configured_desk,
    print_facts,
    print_json,
    print_table,
)
from copydesk.core.clock import format_iso, now

if TYPE_CHECKING:
    from copydesk.core.accounts.person import Person
    from copydesk.desk import Desk

app = typer.Typer(rich_markup_mode=None, help="Manages the people who sign in to the dashboard.", no_args_is_help=True)

EmailArgument = Annotated[str, typer.Argument(help="The person's email address.")]


@app.command()
def invite(
    email: EmailArgument,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, editor or admin.")] = "viewer",
    json: JsonOption = False,
) -> None:
    """Creates an invitation link. The person opens it to create their account. It works once, within 7 days."""
    with open_configured_desk(create=True) as desk:
        secret = desk.people.invite(email, role, actor=current_actor())
        _print_link(desk, secret, {"email": email.strip().lower(), "role": role}, json)


@app.command("list")
def list_people(json: JsonOption = False) -> None:
    """Lists the people who have an account. Also shows how many valid keys each has created."""
    with open_configured_desk() as desk:
        people = desk.people.all()
        key_counts = desk.people.count_keys_by_creator()
        location = desk.settings.database_location
    facts = [_person_to_dict(person, key_counts.get(person.email, 0)) for person in people]
    if json:
        print_json(facts)
    else:
        rows = [tuple(fact.values())[1:] for fact in facts]
        print_table(("email", "name", "role", "since", "keys"), rows, f"There are no accounts yet in {location}.")


@app.command("role")
def change_role(
    email: EmailArgument,
    role: Annotated[str, typer.Argument(help="viewer, editor or admin.")],
    keep_keys: Annotated[
        bool, typer.Option("--keep-keys", help="Do not revoke the keys that the person created.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Changes a person's role, at once. Revokes the keys of a person who stops being an administrator."""
    with open_configured_desk() as desk:
        person = desk.people.get_by_email(email)
        loses_keys = person.role == "admin" and role != "admin" and not keep_keys
        if loses_keys and not yes and _print_created_keys(desk, person):
            typer.confirm(f"Change the role of {person.email} to {role} and revoke these keys?", abort=True, err=True)
        revoked = desk.people.change_role(person.id, role, actor=current_actor(), keep_keys=keep_keys)
    if json:
        print_json({"email": person.email, "role": role, "keysRevoked": revoked})
    else:
        typer.echo(f"Changed the role of {person.email} to {role}. Revoked {revoked} keys.")


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
            question = f"Remove {person.email} and revoke the {keys} valid keys that they created?"
            typer.confirm(question, abort=True, err=True)
        revoked = desk.people.remove(person.id, actor=current_actor())
    if json:
        print_json({"email": person.email, "keysRevoked": revoked})
    else:
        typer.echo(f"Removed {person.email}. Revoked {revoked} keys.")


@app.command()
def reset(email: EmailArgument, json: JsonOption = False) -> None:
    """Creates a link for a person who forgot their password. The person opens it to set a new one."""
    with open_configured_desk() as desk:
        person = desk.people.get_by_email(email)
        secret = desk.people.create_reset_link(person, actor=current_actor())
        _print_link(desk, secret, {"email": person.email, "role": person.role}, json)


@app.command("first-link")
@app.command("link", hidden=True, deprecated=True)
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
    if json:
        print_json(facts)
    else:
        print_facts(facts)
        typer.echo("\nSave this link now. It is not shown again.", err=True)


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
    }
