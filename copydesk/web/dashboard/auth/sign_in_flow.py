"""What all ways of coming in share: the page they begin at, and the session they end in."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from fastapi import Request, Response

from copydesk.core.accounts.person import Person
from copydesk.core.errors import RequestError
from copydesk.core.runtime.thread_pool import run_in_pool, run_in_thread
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.session import redirect, set_session_cookie
from copydesk.web.responses.html import render_page

P = ParamSpec("P")
T = TypeVar("T")


async def run_password_check(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """For what looks at a password, which takes 64 MB and a core while it lasts: four at once, in threads of their
    own, so that whoever is in already does not queue with those who want to come in."""
    return await run_in_pool("door", function, *args, **kwargs)


async def start_session(request: Request, desk: Desk, person: Person, next_path: str) -> Response:
    """Always with a new session, so that one that was slipped in before is worth nothing."""
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
        refusal=error,
        title="Sign in",
        email=email,
        following=next_path,
        provider=provider_name(desk.settings),
        has_admin=await run_in_thread(desk.people.has_admin),
    )


def provider_name(settings: Settings) -> str:
    """For people: the host that they know from its own sign-in page. Empty without a provider."""
    return urlsplit(settings.oidc_issuer).hostname or ""


def role_for_new_person(email: str, settings: Settings) -> str | None:
    """What somebody whom the provider vouches for comes in as without an invitation; None when they do not."""
    is_allowed_domain = settings.oidc_issuer and email.lower().rpartition("@")[2] in settings.oidc_domains
    return settings.oidc_role if is_allowed_domain else None
