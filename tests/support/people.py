"""People who are signed in to the dashboard of a running service."""

import re

import httpx2 as httpx
from argon2 import PasswordHasher
from sqlalchemy import insert

from copydesk.core import clock
from copydesk.core.accounts.person import Person
from copydesk.core.db.tables import people
from copydesk.core.ids import new_id
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.cookies import cookie_name
from tests.support.service import Service

PASSWORD = "correct horse battery"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HASH = CHEAP.hash(PASSWORD)
"""A valid hash that is fast to create and to verify."""


def add_person(desk: Desk, email: str, role: str) -> Person:
    """Adds a person who has accepted their invitation and chosen PASSWORD."""
    person = Person(new_id("pers"), email, role.title(), role, clock.now())
    with desk.database.write() as tx:
        tx.execute(insert(people).values({**vars(person), "password": HASH}))
    return person


def person(service: Service, role: str = "admin", email: str = "") -> Person:
    """Returns the account of this address; creates it with this role if it does not exist."""
    email = email or f"{role}@example.org"
    known = next((each for each in service.desk.people.all() if each.email == email), None)
    return known or add_person(service.desk, email, role)


def signed_in(service: Service, role: str = "admin", email: str = "") -> httpx.Client:
    """Returns an HTTP client with a session cookie that requests pages like a browser."""
    secret = service.desk.people.sessions.create(person(service, role, email), "127.0.0.1", "a test")
    return httpx.Client(
        base_url=service.url,
        cookies={cookie_name(service.desk.settings): secret},
        headers={"Accept": "text/html"},
        timeout=30,
    )


def token_of(html: str) -> str:
    """Returns the CSRF token of the page's forms."""
    found = re.search(r'name="token" value="([0-9a-f]{64})"', html)
    assert found, "there is no form on this page"
    return found[1]
