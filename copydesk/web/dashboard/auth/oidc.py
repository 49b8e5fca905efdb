"""Sign-in with an identity provider: the authorization code flow with state, nonce and PKCE verifier."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from copydesk.core import clock
from copydesk.core.errors import NotFound, RequestError
from copydesk.core.ids import random_text
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.api.dependencies import OpenDesk
from copydesk.web.dashboard.auth.cookies import delete_cookie, set_cookie, uses_https
from copydesk.web.dashboard.auth.csrf import constant_time_equals
from copydesk.web.dashboard.auth.oidc_provider import IdentityRejected, OidcProvider
from copydesk.web.dashboard.auth.sign_in_flow import render_sign_in_page, role_for_new_person, start_session
from copydesk.web.responses.redirects import redirect, safe_redirect_path

router = APIRouter()
FLOW_LIFETIME_SECONDS = 600


@dataclass(frozen=True)
class OidcFlow:
    """A sign-in that is under way. A signed cookie stores it, so that only the browser that began it can finish it."""

    state: str
    nonce: str
    verifier: str
    following: str
    """The path to open after the sign-in. The cookie stores it under this name."""
    expires_at: int


@router.get("/sign-in/oidc")
async def begin_sign_in(
    request: Request, desk: OpenDesk, next_path: Annotated[str, Query(alias="next")] = ""
) -> Response:
    provider = _get_provider(request, desk)
    expires_at = clock.now() + FLOW_LIFETIME_SECONDS * clock.SECOND
    flow = OidcFlow(random_text(43), random_text(43), random_text(64), safe_redirect_path(next_path), expires_at)
    try:
        authorization_url = await provider.build_authorization_url(flow.state, flow.nonce, flow.verifier)
    except RequestError as error:
        return await render_sign_in_page(desk, flow.following, error)
    response = redirect(authorization_url)
    set_cookie(
        response,
        desk.settings,
        _flow_cookie_name(desk.settings),
        _sign_flow(flow, desk.settings),
        FLOW_LIFETIME_SECONDS,
    )
    return response


@router.get("/sign-in/oidc/back")
async def finish_sign_in(
    request: Request,
    desk: OpenDesk,
    code: Annotated[str, Query(max_length=4000)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    provider = _get_provider(request, desk)
    flow = _read_flow(request.cookies.get(_flow_cookie_name(desk.settings), ""), desk.settings)
    try:
        if flow is None or not constant_time_equals(state, flow.state):
            raise IdentityRejected("This sign-in took too long or was not started in this browser. Sign in again.")
        if not code:
            raise IdentityRejected("The identity provider rejected the sign-in.")
        identity = await provider.exchange_code(code, flow.nonce, flow.verifier)
        role = role_for_new_person(identity.email, desk.settings)
        person = await run_in_thread(
            desk.people.sign_in_with_provider, identity.subject, identity.issuer, identity.email, identity.name, role
        )
        response = await start_session(request, desk, person, flow.following)
    except RequestError as error:
        response = await render_sign_in_page(desk, flow.following if flow else "/", error)
    delete_cookie(response, desk.settings, _flow_cookie_name(desk.settings))
    return response


def _get_provider(request: Request, desk: Desk) -> OidcProvider:
    if not desk.settings.oidc_issuer:
        raise NotFound
    app_state: Any = request.app.state
    if not hasattr(app_state, "provider"):
        app_state.provider = OidcProvider(desk.settings)
    provider: OidcProvider = app_state.provider
    return provider


def _flow_cookie_name(settings: Settings) -> str:
    return "__Host-copydesk-oidc" if uses_https(settings) else "copydesk-oidc"


def _sign_flow(flow: OidcFlow, settings: Settings) -> str:
    body = urlsafe_b64encode(json.dumps(asdict(flow)).encode()).decode()
    return f"{body}.{_compute_signature(body, settings)}"


def _read_flow(cookie: str, settings: Settings) -> OidcFlow | None:
    body, _, signature = cookie.rpartition(".")
    if not constant_time_equals(signature, _compute_signature(body, settings)):
        return None
    flow = OidcFlow(**json.loads(urlsafe_b64decode(body)))
    return flow if flow.expires_at > clock.now() else None


def _compute_signature(body: str, settings: Settings) -> str:
    """Signs with a key derived from the client secret, which every process of the service knows."""
    key = hashlib.sha256(f"copydesk sign-in {settings.oidc_client_secret}".encode()).digest()
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()
