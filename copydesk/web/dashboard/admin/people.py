"""The page /people: invites people, changes their roles and removes them."""

from fastapi import APIRouter, Response

from copydesk.core.accounts.api_keys import CreatedKey
from copydesk.core.accounts.person import GLOBAL_ROLES, NO_ROLE, Person
from copydesk.core.errors import Conflict, RequestError
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.auth.access import AdminPost, AdminRequest, SignedInRequest
from copydesk.web.dashboard.auth.project_role_names import ROLE_HELP, name_project_roles
from copydesk.web.dashboard.auth.sign_in_flow import provider_name, role_for_new_person
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()


@router.get("/people")
async def people_page(signed_in: AdminRequest) -> Response:
    return await _render_people_page(signed_in)


@router.post("/people/invite")
async def invite_person(post: AdminPost) -> Response:
    """Invites a person with a role in all projects, or in the chosen one."""
    email = post.form.get("email")
    role = post.form.get("role")
    project_id = post.form.get("project")
    people = post.desk.people
    project_name = ""
    try:
        if project_id:
            project_name = (await post.get_project(project_id)).name
            secret = await run_in_thread(people.invite_to_project, email, project_id, role, actor=post.person.email)
        else:
            secret = await run_in_thread(people.invite, email, role, actor=post.person.email)
    except RequestError as error:
        return await _render_people_page(post, error, email=email, role=role, project_id=project_id)
    mails, address = post.desk.sharing.account_mails, email.strip().lower()
    is_mailed = await run_in_thread(
        mails.send_invitation, address, role, secret, actor=post.person.email, project_name=project_name
    )
    return await _render_people_page(post, link=mails.build_link(secret), link_for=address, is_mailed=is_mailed)


@router.post("/people/withdraw")
async def withdraw_invitation(post: AdminPost) -> Response:
    email = post.form.get("email")
    await run_in_thread(post.desk.people.withdraw_invitation, email, actor=post.person.email)
    await run_in_thread(post.desk.sharing.account_mails.cancel, email)
    return redirect("/people")


@router.post("/people/{person_id}/role")
async def change_role(person_id: str, post: AdminPost) -> Response:
    """Changes a role. If an administrator who created keys is demoted, first asks whether to revoke the keys."""
    role = post.form.get("role")
    keys = post.form.get("keys")
    people = post.desk.people
    try:
        if person_id == post.person.id:
            raise Conflict("You cannot change your own role. Ask another administrator.")
        person = await run_in_thread(people.get, person_id)
        if person.role == "admin" and role in GLOBAL_ROLES[:-1] and keys not in ("revoke", "keep"):
            created_keys = await run_in_thread(post.desk.keys.list_created_by, person.email)
            if created_keys:
                return _render_role_page(post, person, role, created_keys)
        await run_in_thread(people.change_role, person_id, role, actor=post.person.email, keep_keys=keys == "keep")
    except Conflict as error:
        return await _render_people_page(post, error)
    return redirect("/people")


@router.post("/people/{person_id}/reset")
async def create_reset_link(person_id: str, post: AdminPost) -> Response:
    person = await run_in_thread(post.desk.people.get, person_id)
    secret = await run_in_thread(post.desk.people.create_reset_link, person, actor=post.person.email)
    mails = post.desk.sharing.account_mails
    is_mailed = await run_in_thread(mails.send_admin_reset, person, secret, actor=post.person.email)
    link = mails.build_link(secret)
    return await _render_people_page(post, link=link, link_for=person.email, is_reset=True, is_mailed=is_mailed)


@router.get("/people/{person_id}/remove")
async def removal_page(person_id: str, signed_in: AdminRequest) -> Response:
    return await _render_removal_page(signed_in, await run_in_thread(signed_in.desk.people.get, person_id))


@router.post("/people/{person_id}/remove")
async def remove_person(person_id: str, post: AdminPost) -> Response:
    person = await run_in_thread(post.desk.people.get, person_id)
    try:
        if person.id == post.person.id and "oneself" not in post.form:
            raise Conflict("This is your own account. Tick the box to confirm that you want to remove it.")
        await run_in_thread(post.desk.people.remove, person_id, actor=post.person.email)
        await run_in_thread(post.desk.sharing.account_mails.cancel, person.email)
    except Conflict as error:
        return await _render_removal_page(post, person, error)
    return redirect("/people")


async def _render_people_page(
    signed_in: SignedInRequest,
    error: RequestError | None = None,
    *,
    email: str = "",
    role: str = "viewer",
    project_id: str = "",
    link: str = "",
    link_for: str = "",
    is_reset: bool = False,
    is_mailed: bool = False,
) -> Response:
    people = signed_in.desk.people
    project_roles = await run_in_thread(people.project_roles.load_all)
    projects = await run_in_thread(signed_in.desk.projects.all)
    invitations = await run_in_thread(people.list_invitations)
    return render_page(
        "people.html",
        signed_in=signed_in,
        tab="people",
        title="People",
        people=await run_in_thread(people.all),
        keys=await run_in_thread(people.count_keys_by_creator),
        project_roles={person_id: name_project_roles(projects, roles) for person_id, roles in project_roles.items()},
        invitations=[(each, name_project_roles(projects, each.project_roles)) for each in invitations],
        projects=sorted(projects, key=lambda project: project.name.casefold()),
        project_id=project_id,
        global_roles=GLOBAL_ROLES,
        role_help=ROLE_HELP,
        email=email,
        role=role,
        link=link,
        link_for=link_for,
        is_reset=is_reset,
        is_mailed=is_mailed,
        sends_mail=signed_in.desk.sharing.account_mails.is_enabled,
        error=error,
    )


def _render_role_page(
    signed_in: SignedInRequest, person: Person, role: str, created_keys: list[CreatedKey]
) -> Response:
    new_role = "no role in all projects" if role == NO_ROLE else role
    return render_page(
        "change-role.html",
        signed_in=signed_in,
        tab="people",
        title=f"Change {person.name} from {person.role} to {new_role}",
        person=person,
        role=role,
        project_id="",
        action=f"/people/{person.id}/role",
        back="/people",
        created=created_keys,
    )


async def _render_removal_page(
    signed_in: SignedInRequest, person: Person, error: RequestError | None = None
) -> Response:
    people = signed_in.desk.people
    admins = [other for other in await run_in_thread(people.all) if other.role == "admin"]
    return render_page(
        "remove-person.html",
        signed_in=signed_in,
        tab="people",
        title=f"Remove {person.name}",
        person=person,
        created=await run_in_thread(signed_in.desk.keys.list_created_by, person.email),
        sessions=len(await run_in_thread(people.sessions.list_for_person, person.id)),
        is_last_admin=[person] == admins,
        returns_as=role_for_new_person(person.email, signed_in.desk.settings),
        provider=provider_name(signed_in.desk.settings),
        error=error,
    )
