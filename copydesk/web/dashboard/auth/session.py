"""Checks the session, the role and the CSRF token of every dashboard request, and manages the session cookie."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request, Response
from starlette.responses import RedirectResponse

from copydesk.analytics.ip_addresses import parse_ip
from copydesk.core.accounts.person import Person
from copydesk.core.accounts.sessions import SESSION_LIFETIME_MS, Session, csrf_token
from copydesk.core.errors import RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.api.jobs import OpenDesk
from copydesk.web.dashboard.auth.form_data import FormData, read_form
from copydesk.web.http.client_address import normalize_address

SIGN_IN_PATH = "/sign-in"
DEFAULT_PORTS = {"http": 80, "https": 443}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class SignInRequired(RequestError):
    status, code = 401, "sign_in_first"
    message = "Sign in first."


class NotAllowed(RequestError):
    status, code = 403, "not_allowed"
    message = "Your role does not allow this; ask an administrator."


class CsrfRejected(RequestError):
    status, code = 403, "foreign_form"
    message = "This form was not sent from its own page, or the page is too old. Go back, reload it and try again."


class CrossOriginRejected(CsrfRejected):
    message = "This form was not sent from the dashboard. Open the dashboard at the address in COPYDESK_BASE_URL."


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


def require_post(role: str) -> Callable[[Request, Desk], Awaitable[SignedInPost]]:
    async def check(request: Request, desk: OpenDesk) -> SignedInPost:
        visit = await _authenticate(request, desk, role)
        form = await read_form(request)
        check_origin(request, desk.settings)
        if not constant_time_equals(form.get("token"), visit.token):
            raise CsrfRejected
        return SignedInPost(visit.desk, visit.person, visit.session, visit.token, form)

    return check


Viewer = Annotated[SignedInRequest, Depends(require_role("viewer"))]
Editor = Annotated[SignedInRequest, Depends(require_role("editor"))]
Admin = Annotated[SignedInRequest, Depends(require_role("admin"))]
ViewerPost = Annotated[SignedInPost, Depends(require_post("viewer"))]
EditorPost = Annotated[SignedInPost, Depends(require_post("editor"))]
AdminPost = Annotated[SignedInPost, Depends(require_post("admin"))]


async def _authenticate(request: Request, desk: Desk, role: str) -> SignedInRequest:
    secret = request.cookies.get(cookie_name(desk.settings), "")
    signed_in = await run_in_thread(desk.people.sessions.find_by_secret, secret) if secret else None
    if signed_in is None:
        raise SignInRequired
    person, session = signed_in
    if not person.may(role):
        raise NotAllowed
    return SignedInRequest(desk, person, session, csrf_token(secret))


async def is_signed_in(request: Request, desk: Desk) -> bool:
    """Returns whether the request has a valid session. Does not raise.

    For public pages that show more to people who are signed in."""
    try:
        await _authenticate(request, desk, "viewer")
    except (SignInRequired, NotAllowed):
        return False
    return True


def constant_time_equals(actual: str, expected: str) -> bool:
    """Compares in constant time. Encodes first, because compare_digest accepts non-ASCII only as bytes."""
    return hmac.compare_digest(actual.encode(), expected.encode())


def check_origin(request: Request, settings: Settings) -> None:
    """Raises CrossOriginRejected for a form that another site sent.

    Browsers always send Sec-Fetch-Site or Origin with a form. A request with neither is from another program, which has
    only the cookies that it was given."""
    fetch_site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if fetch_site is not None:
        is_same_origin = fetch_site in ("same-origin", "none")
    else:
        allowed_origins = own_origins(settings.base_url, request.scope.get("server"))
        is_same_origin = (
            origin is None
            or origin.lower() in allowed_origins
            or _is_same_ip_origin(origin, request.headers.get("host", ""))
        )
    if not is_same_origin:
        raise CrossOriginRejected


def _is_same_ip_origin(origin: str, host: str) -> bool:
    """Returns whether a page at an IP address sent a form to that address. DNS rebinding needs a name."""
    try:
        address = parse_ip(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
    is_specific = address is not None and any(address)  # 0.0.0.0 reaches this machine from any page
    return is_specific and origin.lower() == f"http://{host.lower()}"


@lru_cache(maxsize=64)
def own_origins(base_url: str, server: tuple[str, int | None] | None) -> frozenset[str]:
    """Returns the origins of the service's own pages: the configured address, and the one that this request reached.

    Ignores the Host header, because the client chooses it. On a loopback address, all its names are the same."""
    parts = urlsplit(base_url)
    origins = _format_origins(parts.scheme, parts.hostname or "", parts.port)
    if server is not None:
        origins |= _format_origins("http", normalize_address(server[0]) or server[0], server[1])
    return frozenset(origins)


def _format_origins(scheme: str, host: str, port: int | None) -> set[str]:
    """Returns an address as browsers write it in an origin, without the scheme's usual port."""
    suffix = "" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}"
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    names = {host, *(LOOPBACK_NAMES if is_loopback else ())}
    return {f"{scheme}://{f'[{name}]' if ':' in name else name}{suffix}" for name in names}


def uses_https(settings: Settings) -> bool:
    return settings.base_url.startswith("https://")


def cookie_name(settings: Settings) -> str:
    """Returns the name of the session cookie.

    Browsers accept the prefix `__Host-` only over TLS and without a Domain, so a sibling host cannot set the cookie."""
    return "__Host-copydesk" if uses_https(settings) else "copydesk"


def set_cookie(response: Response, settings: Settings, name: str, value: str, seconds: int) -> None:
    """Sets a cookie that scripts cannot read and that browsers do not send with forms of other sites."""
    response.set_cookie(
        name, value, max_age=seconds, path="/", secure=uses_https(settings), httponly=True, samesite="lax"
    )


def delete_cookie(response: Response, settings: Settings, name: str) -> None:
    response.delete_cookie(name, path="/", secure=uses_https(settings), httponly=True, samesite="lax")


def set_session_cookie(response: Response, settings: Settings, secret: str) -> None:
    set_cookie(response, settings, cookie_name(settings), secret, SESSION_LIFETIME_MS // 1000)


def delete_session_cookie(response: Response, settings: Settings) -> None:
    delete_cookie(response, settings, cookie_name(settings))


def redirect(location: str) -> Response:
    """Redirects with status 303 after a form, so that a reload does not send the form again."""
    return RedirectResponse(location, status_code=303)


def redirect_to_sign_in(request: Request) -> Response:
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    target = path + (f"?{query}" if query else "")
    return redirect(
        SIGN_IN_PATH if request.method != "GET" or target == "/" else f"{SIGN_IN_PATH}?next={quote(target, safe='')}"
    )


def safe_redirect_path(path: str) -> str:
    """Returns the path to open after the sign-in, or `/` if it could lead to another site."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_local else "/"
