"""/people: who may come in and as what; inviting, changing roles, removing."""

from fastapi import APIRouter, Response

from copydesk.core.accounts.api_keys import CreatedKey
from copydesk.core.accounts.person import ROLES, Person
from copydesk.core.errors import Conflict, Refusal
from copydesk.core.runtime.thread_pool import call
from copydesk.web.dashboard.auth.session import Admin, AdminPost, Visit, see
from copydesk.web.dashboard.auth.sign_in_flow import provider_name, role_of_new
from copydesk.web.responses.html import page

router = APIRouter()


@router.get("/people")
async def people_page(visit: Admin) -> Response:
    return await _page(visit)


@router.post("/people/invite")
async def invite(post: AdminPost) -> Response:
    email, role = post.form.get("email"), post.form.get("role")
    try:
        secret = await call(post.desk.people.invite, email, role, actor=post.person.email)
    except Refusal as refusal:
        return await _page(post, refusal, email=email, role=role)
    return await _page(post, link=_link(post, secret), link_for=email.strip().lower())


@router.post("/people/withdraw")
async def withdraw(post: AdminPost) -> Response:
    await call(post.desk.people.withdraw, post.form.get("email"), actor=post.person.email)
    return see("/people")


@router.post("/people/{person_id}/role")
async def change_role(person_id: str, post: AdminPost) -> Response:
    """Asks first what becomes of their keys, where an administrator who created some becomes something less."""
    role, keys = post.form.get("role"), post.form.get("keys")
    people = post.desk.people
    try:
        if person_id == post.person.id:
            raise Conflict("Your own role is for another administrator to change.")
        person = await call(people.get, person_id)
        if person.role == "admin" and role in ROLES[:-1] and keys not in ("revoke", "keep"):
            created = await call(post.desk.keys.created_by, person.email)
            if created:
                return _role_page(post, person, role, created)
        await call(people.change_role, person_id, role, actor=post.person.email, keep_keys=keys == "keep")
    except Conflict as refusal:
        return await _page(post, refusal)
    return see("/people")


@router.post("/people/{person_id}/reset")
async def reset(person_id: str, post: AdminPost) -> Response:
    person = await call(post.desk.people.get, person_id)
    secret = await call(post.desk.people.reset, person, actor=post.person.email)
    return await _page(post, link=_link(post, secret), link_for=person.email, is_reset=True)


@router.get("/people/{person_id}/remove")
async def remove_page(person_id: str, visit: Admin) -> Response:
    return await _remove_page(visit, await call(visit.desk.people.get, person_id))


@router.post("/people/{person_id}/remove")
async def remove(person_id: str, post: AdminPost) -> Response:
    person = await call(post.desk.people.get, person_id)
    try:
        if person.id == post.person.id and "oneself" not in post.form:
            raise Conflict("This account is your own: tick the box if you mean to remove it.")
        await call(post.desk.people.remove, person_id, actor=post.person.email)
    except Conflict as refusal:
        return await _remove_page(post, person, refusal)
    return see("/people")


async def _page(
    visit: Visit,
    refusal: Refusal | None = None,
    *,
    email: str = "",
    role: str = "viewer",
    link: str = "",
    link_for: str = "",
    is_reset: bool = False,
) -> Response:
    people = visit.desk.people
    return page(
        "people.html",
        refusal.status if refusal else 200,
        visit=visit,
        tab="people",
        title="People",
        people=await call(people.all),
        keys=await call(people.keys_made),
        invitations=await call(people.invitations),
        roles=ROLES,
        email=email,
        role=role,
        link=link,
        link_for=link_for,
        is_reset=is_reset,
        error=refusal.message if refusal else "",
    )


def _role_page(visit: Visit, person: Person, role: str, created: list[CreatedKey]) -> Response:
    title = f"Change the role of {person.name}"
    return page("change-role.html", visit=visit, tab="people", title=title, person=person, role=role, created=created)


async def _remove_page(visit: Visit, person: Person, refusal: Refusal | None = None) -> Response:
    people = visit.desk.people
    admins = [other for other in await call(people.all) if other.role == "admin"]
    return page(
        "remove-person.html",
        refusal.status if refusal else 200,
        visit=visit,
        tab="people",
        title=f"Remove {person.name}",
        person=person,
        created=await call(visit.desk.keys.created_by, person.email),
        sessions=len(await call(people.sessions.of_person, person.id)),
        is_last_admin=[person] == admins,
        returns_as=role_of_new(person.email, visit.desk.settings),
        provider=provider_name(visit.desk.settings),
        error=refusal.message if refusal else "",
    )


def _link(visit: Visit, secret: str) -> str:
    return f"{visit.desk.settings.base_url}/join/{secret}"
