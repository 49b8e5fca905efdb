"""Signing in with an identity provider: there with a state, a nonce and a verifier, and back with a code."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from copydesk.core import clock
from copydesk.core.errors import NotFound, Refusal
from copydesk.core.ids import random_text
from copydesk.core.runtime.thread_pool import call
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.api.jobs import OpenDesk
from copydesk.web.dashboard.auth.oidc_provider import NotVouchedFor, Provider
from copydesk.web.dashboard.auth.session import drop_cookie, is_same, is_secure, keep_cookie, own_path, see
from copydesk.web.dashboard.auth.sign_in_flow import come_in, role_of_new, sign_in_page

router = APIRouter()
LIFE_SECONDS = 600


@dataclass(frozen=True)
class Flow:
    """What a browser keeps on its way there and back, signed, so that only a way that began here ends here."""

    state: str
    nonce: str
    verifier: str
    following: str
    expires_at: int


@router.get("/sign-in/oidc")
async def there(request: Request, desk: OpenDesk, following: Annotated[str, Query(alias="next")] = "") -> Response:
    provider = _provider(request, desk)
    until = clock.now() + LIFE_SECONDS * clock.SECOND
    flow = Flow(random_text(43), random_text(43), random_text(64), own_path(following), until)
    try:
        address = await provider.address(flow.state, flow.nonce, flow.verifier)
    except Refusal as refusal:
        return await sign_in_page(desk, flow.following, refusal)
    response = see(address)
    keep_cookie(response, desk.settings, _cookie(desk.settings), _signed(flow, desk.settings), LIFE_SECONDS)
    return response


@router.get("/sign-in/oidc/back")
async def back(
    request: Request,
    desk: OpenDesk,
    code: Annotated[str, Query(max_length=4000)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    provider = _provider(request, desk)
    flow = _read(request.cookies.get(_cookie(desk.settings), ""), desk.settings)
    try:
        if flow is None or not is_same(state, flow.state):
            raise NotVouchedFor("This way of signing in took too long or did not begin here; sign in anew.")
        if not code:
            raise NotVouchedFor("The identity provider did not let you in.")
        known = await provider.vouched(code, flow.nonce, flow.verifier)
        role = role_of_new(known.email, desk.settings)
        person = await call(desk.people.signed_in_by, known.subject, known.issuer, known.email, known.name, role)
        response = await come_in(request, desk, person, flow.following)
    except Refusal as refusal:
        response = await sign_in_page(desk, flow.following if flow else "/", refusal)
    drop_cookie(response, desk.settings, _cookie(desk.settings))
    return response


def _provider(request: Request, desk: Desk) -> Provider:
    if not desk.settings.oidc_issuer:
        raise NotFound
    state: Any = request.app.state
    if not hasattr(state, "provider"):
        state.provider = Provider(desk.settings)
    provider: Provider = state.provider
    return provider


def _cookie(settings: Settings) -> str:
    return "__Host-copydesk-oidc" if is_secure(settings) else "copydesk-oidc"


def _signed(flow: Flow, settings: Settings) -> str:
    body = urlsafe_b64encode(json.dumps(asdict(flow)).encode()).decode()
    return f"{body}.{_signature(body, settings)}"


def _read(cookie: str, settings: Settings) -> Flow | None:
    body, _, signature = cookie.rpartition(".")
    if not is_same(signature, _signature(body, settings)):
        return None
    flow = Flow(**json.loads(urlsafe_b64decode(body)))
    return flow if flow.expires_at > clock.now() else None


def _signature(body: str, settings: Settings) -> str:
    """With a key of the client's secret, which every process of the service has and no browser."""
    key = hashlib.sha256(f"copydesk sign-in {settings.oidc_client_secret}".encode()).digest()
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()
