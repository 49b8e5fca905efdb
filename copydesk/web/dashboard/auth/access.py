"""Decides who may see a page or send a form of the dashboard: checks session, role and CSRF token."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from copydesk.core.accounts.person import Person
from copydesk.core.accounts.sessions import Session, csrf_token
from copydesk.core.errors import RequestError
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

    async def get_project(self, project_id: str) -> Project:
        return await run_in_thread(self.desk.projects.get, project_id)

    def may(self, role: str) -> bool:
        return self.person.may(role)


@dataclass(frozen=True)
class SignedInPost(SignedInRequest):
    """A signed-in request with a form whose CSRF token and origin were checked."""

    form: FormData


def require_role(role: str) -> Callable[[Request, Desk], Awaitable[SignedInRequest]]:
    async def check(request: Request, desk: OpenDesk) -> SignedInRequest:
        return await _authenticate(request, desk, role)

    return check


def require_checked_post(role: str) -> Callable[[Request, Desk], Awaitable[SignedInPost]]:
    """Returns a dependency that requires a role, a form of our own pages (no CSRF) and reads that form."""

    async def check(request: Request, desk: OpenDesk) -> SignedInPost:
        signed_in = await _authenticate(request, desk, role)
        form = await read_form(request)
        check_origin(request, desk.settings)
        check_token(form.get("token"), signed_in.token)
        return SignedInPost(signed_in.desk, signed_in.person, signed_in.session, signed_in.token, form)

    return check


ViewerRequest = Annotated[SignedInRequest, Depends(require_role("viewer"))]
EditorRequest = Annotated[SignedInRequest, Depends(require_role("editor"))]
AdminRequest = Annotated[SignedInRequest, Depends(require_role("admin"))]
ViewerPost = Annotated[SignedInPost, Depends(require_checked_post("viewer"))]
EditorPost = Annotated[SignedInPost, Depends(require_checked_post("editor"))]
AdminPost = Annotated[SignedInPost, Depends(require_checked_post("admin"))]


async def _authenticate(request: Request, desk: Desk, role: str) -> SignedInRequest:
    secret = request.cookies.get(cookie_name(desk.settings), "")
    person_and_session = await run_in_thread(desk.people.sessions.find_by_secret, secret) if secret else None
    if person_and_session is None:
        raise SignInRequired
    person, session = person_and_session
    if not person.may(role):
        raise NotAllowed
    return SignedInRequest(desk, person, session, csrf_token(secret))


async def find_signed_in(request: Request, desk: Desk) -> SignedInRequest | None:
    """Returns who has sent the request, or None if it has no valid session. For pages that everyone may open."""
    try:
        return await _authenticate(request, desk, "viewer")
    except RequestError:
        return None


async def is_signed_in(request: Request, desk: Desk) -> bool:
    """Returns whether the request has a valid session. Does not raise.

    For public pages that show more to people who are signed in."""
    return await find_signed_in(request, desk) is not None
