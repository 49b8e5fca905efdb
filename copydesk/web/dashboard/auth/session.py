"""Who visits the dashboard and what they may do: every page asks here first, and every form."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request, Response
from starlette.responses import RedirectResponse

from copydesk.analytics.ip_addresses import packed
from copydesk.core.accounts.person import Person
from copydesk.core.accounts.sessions import LIFE, Session, form_token
from copydesk.core.errors import Refusal
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.api.jobs import OpenDesk
from copydesk.web.dashboard.auth.form_data import Form, form_of
from copydesk.web.http.client_address import plain_address

SIGN_IN = "/sign-in"
DEFAULT_PORTS = {"http": 80, "https": 443}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class SignInFirst(Refusal):
    status, code = 401, "sign_in_first"
    message = "Sign in first."


class NotAllowed(Refusal):
    status, code = 403, "not_allowed"
    message = "Your role does not allow this; ask an administrator."


class ForeignForm(Refusal):
    status, code = 403, "foreign_form"
    message = "This form was not sent from its own page, or the page is too old. Go back, reload it and try again."


class ForeignOrigin(ForeignForm):
    message = "This form was not sent from the dashboard. Open the dashboard at the address in COPYDESK_BASE_URL."


@dataclass(frozen=True)
class Visit:
    desk: Desk
    person: Person
    session: Session
    token: str
    """What the page's forms carry."""

    async def project(self, project_id: str) -> Project:
        return await call(self.desk.projects.get, project_id)

    def may(self, role: str) -> bool:
        return self.person.may(role)


@dataclass(frozen=True)
class Post(Visit):
    """A visit that sent a form, which is surely of a page of ours."""

    form: Form


def at_least(role: str) -> Callable[[Request, Desk], Awaitable[Visit]]:
    async def check(request: Request, desk: OpenDesk) -> Visit:
        return await _visit(request, desk, role)

    return check


def post_of(role: str) -> Callable[[Request, Desk], Awaitable[Post]]:
    async def check(request: Request, desk: OpenDesk) -> Post:
        visit = await _visit(request, desk, role)
        form = await form_of(request)
        check_origin(request, desk.settings)
        if not is_same(form.get("token"), visit.token):
            raise ForeignForm
        return Post(visit.desk, visit.person, visit.session, visit.token, form)

    return check


Viewer = Annotated[Visit, Depends(at_least("viewer"))]
Editor = Annotated[Visit, Depends(at_least("editor"))]
Admin = Annotated[Visit, Depends(at_least("admin"))]
ViewerPost = Annotated[Post, Depends(post_of("viewer"))]
EditorPost = Annotated[Post, Depends(post_of("editor"))]
AdminPost = Annotated[Post, Depends(post_of("admin"))]


async def _visit(request: Request, desk: Desk, role: str) -> Visit:
    secret = request.cookies.get(cookie_name(desk.settings), "")
    found = await call(desk.people.sessions.of, secret) if secret else None
    if found is None:
        raise SignInFirst
    person, session = found
    if not person.may(role):
        raise NotAllowed
    return Visit(desk, person, session, form_token(secret))


async def is_signed_in(request: Request, desk: Desk) -> bool:
    """For what is open to others too, or stays open for long."""
    try:
        await _visit(request, desk, "viewer")
    except (SignInFirst, NotAllowed):
        return False
    return True


def is_same(given: str, wanted: str) -> bool:
    """In constant time, and of any text: only bytes may be compared so."""
    return hmac.compare_digest(given.encode(), wanted.encode())


def check_origin(request: Request, settings: Settings) -> None:
    """Raises ForeignOrigin for a form that another site sent. A browser always says where a form comes from; other
    programs bring no cookies that they were not given."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        own = own_origins(settings.base_url, request.scope.get("server"))
        is_own = origin is None or origin.lower() in own or _is_address_itself(origin, request.headers.get("host", ""))
    if not is_own:
        raise ForeignOrigin


def _is_address_itself(origin: str, host: str) -> bool:
    """Returns whether a page at an IP address sent a form to that address. Only names can be pointed elsewhere."""
    try:
        address = packed(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
    is_specific = address is not None and any(address)  # 0.0.0.0 leads to this machine, whoever names it
    return is_specific and origin.lower() == f"http://{host.lower()}"


@lru_cache(maxsize=64)
def own_origins(base_url: str, server: tuple[str, int | None] | None) -> frozenset[str]:
    """Returns the origins of the service's own pages: the configured address, and the one that this request reached.

    The Host header is not asked, because the client chooses it. On a loopback address, all its names are the same."""
    parts = urlsplit(base_url)
    found = _origins(parts.scheme, parts.hostname or "", parts.port)
    if server is not None:
        found |= _origins("http", plain_address(server[0]) or server[0], server[1])
    return frozenset(found)


def _origins(scheme: str, host: str, port: int | None) -> set[str]:
    """Returns an address as browsers write it in an origin, without the scheme's usual port."""
    suffix = "" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}"
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    names = {host, *(LOOPBACK_NAMES if is_loopback else ())}
    return {f"{scheme}://{f'[{name}]' if ':' in name else name}{suffix}" for name in names}


def is_secure(settings: Settings) -> bool:
    return settings.base_url.startswith("https://")


def cookie_name(settings: Settings) -> str:
    """A browser takes `__Host-` only from the very host and over TLS, so that no neighbour can set it."""
    return "__Host-copydesk" if is_secure(settings) else "copydesk"


def keep_cookie(response: Response, settings: Settings, name: str, value: str, seconds: int) -> None:
    """No script reads it, and no other site's form brings it along."""
    response.set_cookie(
        name, value, max_age=seconds, path="/", secure=is_secure(settings), httponly=True, samesite="lax"
    )


def drop_cookie(response: Response, settings: Settings, name: str) -> None:
    response.delete_cookie(name, path="/", secure=is_secure(settings), httponly=True, samesite="lax")


def remember(response: Response, settings: Settings, secret: str) -> None:
    keep_cookie(response, settings, cookie_name(settings), secret, LIFE // 1000)


def forget(response: Response, settings: Settings) -> None:
    drop_cookie(response, settings, cookie_name(settings))


def see(path: str) -> Response:
    """After a form: the page to look at next, which is safe to reload."""
    return RedirectResponse(path, status_code=303)


def to_sign_in(request: Request) -> Response:
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    asked = path + (f"?{query}" if query else "")
    return see(SIGN_IN if request.method != "GET" or asked == "/" else f"{SIGN_IN}?next={quote(asked, safe='')}")


def own_path(text: str) -> str:
    """Where to go after signing in: a path of ours, whatever a link says."""
    is_ours = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and "\\" not in text
    return text if is_ours else "/"
