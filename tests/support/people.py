"""People who are signed in to the dashboard of a running service."""

import re

import httpx2 as httpx
from argon2 import PasswordHasher
from sqlalchemy import insert

from copydesk.core import clock
from copydesk.core.accounts.person import Person, person_to_row
from copydesk.core.db.tables import people
from copydesk.core.ids import new_id
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.cookies import cookie_name
from tests.support.service import Service

PASSWORD = "correct horse battery"
CHEAP_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD_HASH = CHEAP_HASHER.hash(PASSWORD)
"""A valid hash that is fast to create and to verify."""


def add_person(desk: Desk, email: str, role: str) -> Person:
    """Adds a person who has accepted their invitation and chosen PASSWORD."""
    person = Person(new_id("pers"), email, role.title(), role, clock.now())
    with desk.database.write() as tx:
        tx.execute(insert(people).values({**person_to_row(person), "password": PASSWORD_HASH}))
    return person


def get_or_add_person(service: Service, role: str = "admin", email: str = "") -> Person:
    """Returns the account of this address; creates it with this role if it does not exist."""
    email = email or f"{role}@example.org"
    account = next((each for each in service.desk.people.all() if each.email == email), None)
    return account or add_person(service.desk, email, role)


def signed_in_client(service: Service, role: str = "admin", email: str = "") -> httpx.Client:
    """Returns an HTTP client with a session cookie that requests pages like a browser."""
    secret = service.desk.people.sessions.create(get_or_add_person(service, role, email), "127.0.0.1", "a test")
    return httpx.Client(
        base_url=service.url,
        cookies={cookie_name(service.desk.settings): secret},
        headers={"Accept": "text/html"},
        timeout=30,
    )


def csrf_token_from_html(html: str) -> str:
    """Returns the CSRF token of the page's forms."""
    match = re.search(r'name="token" value="([0-9a-f]{64})"', html)
    assert match, "there is no form on this page"
    return match[1]
