"""Who has access to a project: the page of a project's people, and the page of a person's projects."""

from fastapi import APIRouter, Request, Response

from copydesk.core.accounts.person import NO_ROLE, ROLES, Person, PersonNotFound
from copydesk.core.errors import Conflict, InvalidRequest, RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.auth.access import AdminPost, AdminRequest, SignedInPost, SignedInRequest
from copydesk.web.dashboard.auth.project_role_names import ROLE_HELP, name_project_roles
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()
NO_ACCOUNT_MESSAGE = "There is no account with this address. An administrator of all projects can invite the person."


@router.get("/projects/{project_id}/people")
async def project_people_page(request: Request, project_id: str, signed_in: AdminRequest) -> Response:
    notice = read_message(request, signed_in.desk.settings)
    response = await _render_project_people(signed_in, await signed_in.get_project(project_id), notice=notice)
    if notice:
        delete_message(response, signed_in.desk.settings)
    return response


@router.post("/projects/{project_id}/people")
async def give_access(project_id: str, post: AdminPost) -> Response:
    """Gives a person with an account a role in the project, or invites a person without one.

    Only administrators of all projects may invite: an account can be given other projects later, so the person who
    passes the link on must be trusted with all of them."""
    project = await post.get_project(project_id)
    email, role = post.form.get("email"), post.form.get("role")
    people = post.desk.people
    actor = post.person.email
    try:
        try:
            person = await run_in_thread(people.get_by_email, email)
        except PersonNotFound:
            if not post.person.may("admin"):
                raise InvalidRequest(NO_ACCOUNT_MESSAGE) from None
            secret = await run_in_thread(people.invite_to_project, email, project.id, role, actor=actor)
            mails, address = post.desk.sharing.account_mails, email.strip().lower()
            is_mailed = await run_in_thread(
                mails.send_invitation, address, role, secret, actor=actor, project_name=project.name
            )
            link = mails.build_link(secret)
            return await _render_project_people(post, project, link=link, link_for=address, is_mailed=is_mailed)
        if person.id == post.person.id:
            raise Conflict("You cannot change your own role. Ask another administrator.")
        members = await run_in_thread(people.project_roles.list_members, project.id)
        if any(member.person.id == person.id for member in members):
            raise InvalidRequest(f"{person.email} has access already. Change the role in the list.")
        await run_in_thread(people.project_roles.set_role, person.id, project.id, role, actor=actor)
    except RequestError as error:
        return await _render_project_people(post, project, error, email=email, role=role)
    message = f"{person.name} has access now."
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/people", message)


@router.post("/projects/{project_id}/people/{person_id}")
async def change_project_role(project_id: str, person_id: str, post: AdminPost) -> Response:
    """Changes the role of a person who has one in the project, or removes it."""
    project = await post.get_project(project_id)
    members = await run_in_thread(post.desk.people.project_roles.list_members, project.id)
    person = next((member.person for member in members if member.person.id == person_id), None)
    if person is None:
        raise PersonNotFound
    page = f"/projects/{project.id}/people"
    try:
        return await _change_role(post, person, project, page=page, action=f"{page}/{person.id}", is_project_page=True)
    except RequestError as error:
        return await _render_project_people(post, project, error)


@router.get("/people/{person_id}/access")
async def person_access_page(request: Request, person_id: str, signed_in: AdminRequest) -> Response:
    notice = read_message(request, signed_in.desk.settings)
    person = await run_in_thread(signed_in.desk.people.get, person_id)
    response = await _render_person_access(signed_in, person, notice=notice)
    if notice:
        delete_message(response, signed_in.desk.settings)
    return response


@router.post("/people/{person_id}/access")
async def change_person_access(person_id: str, post: AdminPost) -> Response:
    """Gives a person a role in a project, changes it or removes it."""
    person = await run_in_thread(post.desk.people.get, person_id)
    page = f"/people/{person.id}/access"
    try:
        project = await run_in_thread(post.desk.projects.get, post.form.get("project"))
        return await _change_role(post, person, project, page=page, action=page, is_project_page=False)
    except RequestError as error:
        return await _render_person_access(post, person, error)


async def _change_role(
    post: SignedInPost, person: Person, project: Project, *, page: str, action: str, is_project_page: bool
) -> Response:
    """Changes a role in a project. If this takes the right to create keys, first asks what to do with those created."""
    role, keys = post.form.get("role"), post.form.get("keys")
    if person.id == post.person.id:
        raise Conflict("You cannot change your own role. Ask another administrator.")
    roles = post.desk.people.project_roles
    held_role = (await run_in_thread(roles.load, person)).get(project.id, NO_ROLE)
    loses_keys = held_role == "admin" and role in (NO_ROLE, *ROLES[:-1]) and not person.may("admin")
    if loses_keys and keys not in ("revoke", "keep"):
        created = await run_in_thread(post.desk.keys.list_created_by, person.email, project.id)
        if created:
            return render_page(
                "change-role.html",
                signed_in=post,
                project=project if is_project_page else None,
                tab="settings" if is_project_page else "people",
                title=f"Take the role of administrator of {project.name} from {person.name}",
                person=person,
                role=role,
                project_id=project.id,
                action=action,
                back=page,
                created=created,
            )
    await run_in_thread(roles.set_role, person.id, project.id, role, actor=post.person.email, keep_keys=keys == "keep")
    message = (
        f"{person.name} has no role in {project.name} now."
        if role == NO_ROLE
        else f"{person.name} is {role} in {project.name} now."
    )
    return redirect_with_message(post.desk.settings, page, message)


async def _render_project_people(
    signed_in: SignedInRequest,
    project: Project,
    error: RequestError | None = None,
    *,
    email: str = "",
    role: str = "viewer",
    link: str = "",
    link_for: str = "",
    is_mailed: bool = False,
    notice: str = "",
) -> Response:
    people = signed_in.desk.people
    return render_page(
        "project-people.html",
        signed_in=signed_in,
        project=project,
        tab="settings",
        title="People with access",
        error=error,
        members=await run_in_thread(people.project_roles.list_members, project.id),
        global_people=[person for person in await run_in_thread(people.all) if person.role != NO_ROLE],
        roles=ROLES,
        role_help=ROLE_HELP,
        email=email,
        role=role,
        link=link,
        link_for=link_for,
        is_reset=False,
        is_mailed=is_mailed,
        notice=notice,
    )


async def _render_person_access(
    signed_in: SignedInRequest, person: Person, error: RequestError | None = None, *, notice: str = ""
) -> Response:
    roles = await run_in_thread(signed_in.desk.people.project_roles.load, person)
    projects = await run_in_thread(signed_in.desk.projects.all)
    return render_page(
        "person-access.html",
        signed_in=signed_in,
        tab="people",
        title=f"Projects of {person.name}",
        error=error,
        person=person,
        project_roles=name_project_roles(projects, roles),
        other_projects=sorted(
            (project for project in projects if project.id not in roles), key=lambda each: each.name.casefold()
        ),
        roles=ROLES,
        notice=notice,
    )
