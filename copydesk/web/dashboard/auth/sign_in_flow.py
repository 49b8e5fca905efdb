"""The parts that password and provider sign-in share: the sign-in page and the new session."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from fastapi import Request, Response

from copydesk.core.accounts.person import Person
from copydesk.core.errors import RequestError
from copydesk.core.runtime.thread_pool import run_in_pool, run_in_thread
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.cookies import set_session_cookie
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

P = ParamSpec("P")
T = TypeVar("T")


async def run_password_check(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function that hashes a password, in a separate thread pool.

    A hash takes much memory and CPU time. The separate pool limits how many run at once, and keeps sign-ins from
    delaying the requests of people who are signed in."""
    return await run_in_pool("sign-in", function, *args, **kwargs)


async def start_session(request: Request, desk: Desk, person: Person, next_path: str) -> Response:
    """Creates a session and sets its cookie. The session is always new, which prevents session fixation."""
    user_agent = request.headers.get("user-agent", "")
    secret = await run_in_thread(desk.people.sessions.create, person, request.state.address, user_agent)
    response = redirect(next_path)
    set_session_cookie(response, desk.settings, secret)
    return response


async def render_sign_in_page(
    desk: Desk, next_path: str, error: RequestError | None = None, email: str = ""
) -> Response:
    return render_page(
        "sign-in.html",
        error=error,
        title="Sign in",
        email=email,
        next_path=next_path,
        provider=provider_name(desk.settings),
        has_admin=await run_in_thread(desk.people.has_admin),
    )


def provider_name(settings: Settings) -> str:
    """Returns the provider's host name to show to people, or an empty string without a provider."""
    return urlsplit(settings.oidc_issuer).hostname or ""


def role_for_new_person(email: str, settings: Settings) -> str | None:
    """Returns the role that a person of an allowed domain gets without an invitation, or None if they need one."""
    is_allowed_domain = settings.oidc_issuer and email.lower().rpartition("@")[2] in settings.oidc_domains
    return settings.oidc_role if is_allowed_domain else None
