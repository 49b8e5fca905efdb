"""Decides who may see a page or send a form of the dashboard: checks session, role in the project and CSRF token."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from copydesk.core.accounts.person import NO_ROLE, Person, includes_role
from copydesk.core.accounts.sessions import Session, csrf_token
from copydesk.core.errors import ProjectNotFound, RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.dependencies import OpenDesk
from copydesk.web.dashboard.auth.cookies import cookie_name
from copydesk.web.dashboard.auth.csrf import check_origin, check_token
from copydesk.web.dashboard.auth.form_data import FormData, read_form


class SignInRequired(RequestError):
    status, code = 401, "sign_in_first"
    message = "Sign in first."


class NotAllowed(RequestError):
    status, code = 403, "not_allowed"
    message = "Your role does not allow this; ask an administrator."


@dataclass(frozen=True)
class SignedInRequest:
    desk: Desk
    person: Person
    session: Session
    token: str
    """The CSRF token of the page's forms."""
    role: str
    """The person's role in the project that the path names, or else in all projects."""

    async def get_project(self, project_id: str) -> Project:
        return await run_in_thread(self.desk.projects.get, project_id)

    def may(self, role: str) -> bool:
        """Returns whether the person has at least this role where the request acts; see `role`."""
        return includes_role(self.role, role)


@dataclass(frozen=True)
class SignedInPost(SignedInRequest):
    """A signed-in request with a form whose CSRF token and origin were checked."""

    form: FormData


def require_role(role: str, *, in_all_projects: bool = False) -> Callable[[Request, Desk], Awaitable[SignedInRequest]]:
    """Returns a dependency that requires a role in the project that the path names.

    Requires it in all projects if the path names none, or with `in_all_projects`."""

    async def check(request: Request, desk: OpenDesk) -> SignedInRequest:
        return await _authenticate(request, desk, role, in_all_projects)

    return check


def require_checked_post(
    role: str, *, in_all_projects: bool = False
) -> Callable[[Request, Desk], Awaitable[SignedInPost]]:
    """Returns a dependency that requires a role, a form of our own pages (no CSRF) and reads that form."""

    async def check(request: Request, desk: OpenDesk) -> SignedInPost:
        signed_in = await _authenticate(request, desk, role, in_all_projects)
        form = await read_form(request)
        check_origin(request, desk.settings)
        check_token(form.get("token"), signed_in.token)
        return SignedInPost(**vars(signed_in), form=form)

    return check


AccountRequest = Annotated[SignedInRequest, Depends(require_role(NO_ROLE))]
"""For pages that every person with an account may open. They show only what `person` may see."""
ViewerRequest = Annotated[SignedInRequest, Depends(require_role("viewer"))]
EditorRequest = Annotated[SignedInRequest, Depends(require_role("editor"))]
AdminRequest = Annotated[SignedInRequest, Depends(require_role("admin"))]
GlobalAdminRequest = Annotated[SignedInRequest, Depends(require_role("admin", in_all_projects=True))]
"""For pages of a project that reach beyond it, such as its repository, which may be any path on the server."""
AccountPost = Annotated[SignedInPost, Depends(require_checked_post(NO_ROLE))]
ViewerPost = Annotated[SignedInPost, Depends(require_checked_post("viewer"))]
EditorPost = Annotated[SignedInPost, Depends(require_checked_post("editor"))]
AdminPost = Annotated[SignedInPost, Depends(require_checked_post("admin"))]
GlobalAdminPost = Annotated[SignedInPost, Depends(require_checked_post("admin", in_all_projects=True))]


async def _authenticate(request: Request, desk: Desk, role: str, in_all_projects: bool) -> SignedInRequest:
    """Raises ProjectNotFound for a project that the person may not see, without a look at whether it exists."""
    signed_in = await find_signed_in(request, desk)
    if signed_in is None:
        raise SignInRequired
    person = signed_in.person
    project_id = request.path_params.get("project_id")
    if project_id is not None and not person.sees(project_id):
        raise ProjectNotFound
    held_role = person.role if project_id is None else person.role_in(project_id)
    if not includes_role(person.role if in_all_projects else held_role, role):
        raise NotAllowed
    return replace(signed_in, role=held_role)


async def find_signed_in(request: Request, desk: Desk) -> SignedInRequest | None:
    """Returns who has sent the request, or None if it has no valid session. For error pages and pages for everyone.

    Does not look at the project that the path names: the error page of a hidden project has a navigation, too."""
    secret = request.cookies.get(cookie_name(desk.settings), "")
    person_and_session = await run_in_thread(desk.people.sessions.find_by_secret, secret) if secret else None
    if person_and_session is None:
        return None
    person, session = person_and_session
    return SignedInRequest(desk, person, session, csrf_token(secret), person.role)


async def sees_project(request: Request, desk: Desk, project_id: str) -> bool:
    """Returns whether the request has a valid session of a person who may see this project. Does not raise.

    For public pages that show more to people who are signed in."""
    signed_in = await find_signed_in(request, desk)
    return signed_in is not None and signed_in.person.sees(project_id)
