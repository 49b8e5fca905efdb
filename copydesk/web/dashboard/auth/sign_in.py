"""The pages to sign in, to sign out and to accept an invitation or the first administrator's link."""

import logging
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from copydesk.core.accounts.passwords import MIN_PASSWORD_CHARS
from copydesk.core.accounts.people import Invitation
from copydesk.core.errors import RequestError
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.dependencies import OpenDesk
from copydesk.web.dashboard.auth import sign_in_flow
from copydesk.web.dashboard.auth.access import AccountPost, AccountRequest
from copydesk.web.dashboard.auth.cookies import cookie_name, delete_session_cookie
from copydesk.web.dashboard.auth.csrf import check_origin
from copydesk.web.dashboard.auth.form_data import FormData, read_form
from copydesk.web.dashboard.auth.project_role_names import list_project_roles
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import SIGN_IN_PATH, redirect, safe_redirect_path

router = APIRouter()
log = logging.getLogger(__name__)


@router.get("/")
async def home(signed_in: AccountRequest) -> Response:
    return redirect("/projects")


@router.get(SIGN_IN_PATH)
async def sign_in_page(
    request: Request, desk: OpenDesk, next_path: Annotated[str, Query(alias="next")] = ""
) -> Response:
    next_path = safe_redirect_path(next_path)
    secret = request.cookies.get(cookie_name(desk.settings), "")
    person_and_session = await run_in_thread(desk.people.sessions.find_by_secret, secret) if secret else None
    if person_and_session is not None:
        return redirect(next_path)
    return await sign_in_flow.render_sign_in_page(desk, next_path)


@router.post(SIGN_IN_PATH)
async def sign_in(request: Request, desk: OpenDesk) -> Response:
    form = await _read_anonymous_form(request, desk)
    email = form.get("email")
    next_path = safe_redirect_path(form.get("next"))
    try:
        person = await sign_in_flow.run_password_check(
            desk.people.sign_in, email, form.get("password"), request.state.address
        )
    except RequestError as error:
        if isinstance(error, TooManyRequests):
            log.warning("sign-in rate limit reached for an IP address or an email address")
        return await sign_in_flow.render_sign_in_page(desk, next_path, error, email)
    return await sign_in_flow.start_session(request, desk, person, next_path)


@router.post("/sign-out")
async def sign_out(post: AccountPost) -> Response:
    await run_in_thread(post.desk.people.sessions.end, post.person, post.session.id)
    response = redirect(SIGN_IN_PATH)
    delete_session_cookie(response, post.desk.settings)
    return response


@router.get("/join/{secret}")
async def join_page(secret: str, desk: OpenDesk) -> Response:
    return await _render_join_page(desk, await run_in_thread(desk.people.get_invitation, secret))


@router.post("/join/{secret}")
async def join(secret: str, request: Request, desk: OpenDesk) -> Response:
    form = await _read_anonymous_form(request, desk)
    invitation = await run_in_thread(desk.people.get_invitation, secret)
    email = form.get("email")
    name = form.get("name")
    try:
        person = await sign_in_flow.run_password_check(
            desk.people.accept_invitation, secret, email, name, form.get("password")
        )
    except RequestError as error:
        return await _render_join_page(desk, invitation, error, email, name)
    return await sign_in_flow.start_session(request, desk, person, "/")


async def _render_join_page(
    desk: Desk, invitation: Invitation, error: RequestError | None = None, email: str = "", name: str = ""
) -> Response:
    return render_page(
        "join.html",
        error=error,
        title="New password" if invitation.is_reset else "Welcome",
        invitation=invitation,
        project_roles=await run_in_thread(list_project_roles, desk, invitation.project_roles),
        email=invitation.email or email,
        name=name,
        min_password_chars=MIN_PASSWORD_CHARS,
    )


async def _read_anonymous_form(request: Request, desk: Desk) -> FormData:
    """Reads a form that is sent without a session. There is no CSRF token yet, so only the origin is checked."""
    check_origin(request, desk.settings)
    return await read_form(request)
