"""People who are signed in to the dashboard of a running service."""

import re

import httpx2 as httpx

from copydesk.core.people import Person
from copydesk.web.dash.visit import cookie_name
from tests.support.service import Service

PASSWORD = "correct horse battery"


def person(service: Service, role: str = "admin", email: str = "") -> Person:
    """An account with this role, and PASSWORD."""
    people, email = service.desk.people, email or f"{role}@example.org"
    known = next((each for each in people.all() if each.email == email), None)
    return known or people.accept(people.invite(email, role, actor="test"), email, role.title(), PASSWORD)


def signed_in(service: Service, role: str = "admin", email: str = "") -> httpx.Client:
    """A browser, as it were: it has the session's cookie and asks for pages."""
    secret = service.desk.people.begin(person(service, role, email), "127.0.0.1", "a test")
    return httpx.Client(
        base_url=service.url,
        cookies={cookie_name(service.desk.settings): secret},
        headers={"Accept": "text/html"},
        timeout=30,
    )


def token_of(html: str) -> str:
    """What the page's forms carry."""
    found = re.search(r'name="token" value="([0-9a-f]{64})"', html)
    assert found, "there is no form on this page"
    return found[1]
