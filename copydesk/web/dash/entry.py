"""Coming in: the first start's link, invitations, signing in and out."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from copydesk.core.errors import Refusal
from copydesk.core.people import Person
from copydesk.desk import Desk
from copydesk.web.dash.forms import Form, form_of
from copydesk.web.dash.visit import (
    SIGN_IN,
    ForeignForm,
    Viewer,
    ViewerPost,
    forget,
    is_from_here,
    own_path,
    remember,
    see,
)
from copydesk.web.jobs import OpenDesk
from copydesk.web.pages import page
from copydesk.web.threads import call

router = APIRouter()
Secret = Annotated[str, Path(pattern="^[0-9A-Za-z]{32}$")]


@router.get("/")
async def home(visit: Viewer) -> Response:
    return see("/projects")


@router.get(SIGN_IN)
async def sign_in_page(desk: OpenDesk, following: Annotated[str, Query(alias="next")] = "") -> Response:
    return page("sign-in.html", title="Sign in", email="", following=own_path(following))


@router.post(SIGN_IN)
async def sign_in(request: Request, desk: OpenDesk) -> Response:
    form = await _outside_form(request, desk)
    email, following = form.get("email"), own_path(form.get("next"))
    try:
        person = await call(desk.people.sign_in, email, form.get("password"), request.state.address)
    except Refusal as refusal:
        return page(
            "sign-in.html",
            refusal.status,
            refusal.headers,
            title="Sign in",
            email=email,
            following=following,
            error=refusal.message,
        )
    return await _come_in(request, desk, person, following)


@router.post("/sign-out")
async def sign_out(post: ViewerPost) -> Response:
    await call(post.desk.people.end_session, post.person, post.session.id)
    response = see(SIGN_IN)
    forget(response, post.desk.settings)
    return response


@router.get("/join/{secret}")
async def join_page(secret: Secret, desk: OpenDesk) -> Response:
    invitation = await call(desk.people.invited, secret)
    return page("join.html", title="Welcome", invitation=invitation, email=invitation.email, name="")


@router.post("/join/{secret}")
async def join(secret: Secret, request: Request, desk: OpenDesk) -> Response:
    form = await _outside_form(request, desk)
    invitation = await call(desk.people.invited, secret)
    email, name = form.get("email"), form.get("name")
    try:
        person = await call(desk.people.accept, secret, email, name, form.get("password"))
    except Refusal as refusal:
        return page(
            "join.html",
            refusal.status,
            title="Welcome",
            invitation=invitation,
            email=invitation.email or email,
            name=name,
            error=refusal.message,
        )
    return await _come_in(request, desk, person, "/")


async def _outside_form(request: Request, desk: Desk) -> Form:
    """Of somebody who has no session yet: that no other site sent it is all that can be asked."""
    if not is_from_here(request, desk.settings):
        raise ForeignForm
    return await form_of(request)


async def _come_in(request: Request, desk: Desk, person: Person, following: str) -> Response:
    """Always with a new session, so that one that was slipped in before is worth nothing."""
    agent = request.headers.get("user-agent", "")
    secret = await call(desk.people.begin, person, request.state.address, agent)
    response = see(following)
    remember(response, desk.settings, secret)
    return response
