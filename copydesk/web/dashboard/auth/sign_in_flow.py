"""What all ways of coming in share: the page they begin at, and the session they end in."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from fastapi import Request, Response

from copydesk.core.accounts.person import Person
from copydesk.core.errors import Refusal
from copydesk.core.runtime.thread_pool import call, run_in
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.session import remember, see
from copydesk.web.responses.html import page

P = ParamSpec("P")
T = TypeVar("T")


async def at_the_door(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """For what looks at a password, which takes 64 MB and a core while it lasts: four at once, in threads of their
    own, so that whoever is in already does not queue with those who want to come in."""
    return await run_in("door", function, *given, **named)


async def come_in(request: Request, desk: Desk, person: Person, following: str) -> Response:
    """Always with a new session, so that one that was slipped in before is worth nothing."""
    agent = request.headers.get("user-agent", "")
    secret = await call(desk.people.sessions.begin, person, request.state.address, agent)
    response = see(following)
    remember(response, desk.settings, secret)
    return response


async def sign_in_page(desk: Desk, following: str, refusal: Refusal | None = None, email: str = "") -> Response:
    return page(
        "sign-in.html",
        refusal=refusal,
        title="Sign in",
        email=email,
        following=following,
        provider=provider_name(desk.settings),
        has_admin=await call(desk.people.has_admin),
    )


def provider_name(settings: Settings) -> str:
    """For people: the host that they know from its own sign-in page. Empty without a provider."""
    return urlsplit(settings.oidc_issuer).hostname or ""


def role_of_new(email: str, settings: Settings) -> str | None:
    """What somebody whom the provider vouches for comes in as without an invitation; None when they do not."""
    is_known = settings.oidc_issuer and email.lower().rpartition("@")[2] in settings.oidc_domains
    return settings.oidc_role if is_known else None
