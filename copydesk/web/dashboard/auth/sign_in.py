"""Coming in: the first start's link, invitations, signing in and out."""

import logging
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from copydesk.core.accounts.passwords import SHORTEST
from copydesk.core.accounts.people import Invitation
from copydesk.core.errors import Refusal
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.web.api.jobs import OpenDesk
from copydesk.web.dashboard.auth import sign_in_flow as coming
from copydesk.web.dashboard.auth.form_data import Form, form_of
from copydesk.web.dashboard.auth.session import (
    SIGN_IN,
    Viewer,
    ViewerPost,
    check_origin,
    cookie_name,
    forget,
    own_path,
    see,
)
from copydesk.web.responses.html import page

router = APIRouter()
log = logging.getLogger(__name__)


@router.get("/")
async def home(visit: Viewer) -> Response:
    return see("/projects")


@router.get(SIGN_IN)
async def sign_in_page(
    request: Request, desk: OpenDesk, following: Annotated[str, Query(alias="next")] = ""
) -> Response:
    following = own_path(following)
    secret = request.cookies.get(cookie_name(desk.settings), "")
    found = await call(desk.people.sessions.of, secret) if secret else None
    if found is not None:
        return see(following)
    return await coming.sign_in_page(desk, following)


@router.post(SIGN_IN)
async def sign_in(request: Request, desk: OpenDesk) -> Response:
    form = await _outside_form(request, desk)
    email, following = form.get("email"), own_path(form.get("next"))
    try:
        person = await coming.at_the_door(desk.people.sign_in, email, form.get("password"), request.state.address)
    except Refusal as refusal:
        if isinstance(refusal, TooManyRequests):
            log.warning("signing in is held up: too many tries from one address, or with one e-mail address")
        return await coming.sign_in_page(desk, following, refusal, email)
    return await coming.come_in(request, desk, person, following)


@router.post("/sign-out")
async def sign_out(post: ViewerPost) -> Response:
    await call(post.desk.people.sessions.end, post.person, post.session.id)
    response = see(SIGN_IN)
    forget(response, post.desk.settings)
    return response


@router.get("/join/{secret}")
async def join_page(secret: str, desk: OpenDesk) -> Response:
    return _join_page(await call(desk.people.invited, secret))


@router.post("/join/{secret}")
async def join(secret: str, request: Request, desk: OpenDesk) -> Response:
    form = await _outside_form(request, desk)
    invitation = await call(desk.people.invited, secret)
    email, name = form.get("email"), form.get("name")
    try:
        person = await coming.at_the_door(desk.people.accept, secret, email, name, form.get("password"))
    except Refusal as refusal:
        return _join_page(invitation, refusal, email, name)
    return await coming.come_in(request, desk, person, "/")


def _join_page(invitation: Invitation, refusal: Refusal | None = None, email: str = "", name: str = "") -> Response:
    return page(
        "join.html",
        refusal=refusal,
        title="New password" if invitation.is_reset else "Welcome",
        invitation=invitation,
        email=invitation.email or email,
        name=name,
        shortest=SHORTEST,
    )


async def _outside_form(request: Request, desk: Desk) -> Form:
    """Of somebody who has no session yet: that no other site sent it is all that can be asked."""
    check_origin(request, desk.settings)
    return await form_of(request)
