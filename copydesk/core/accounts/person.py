"""A person who may sign in: who they are, and what their role allows."""

import re
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Row

from copydesk.core.db.tables import people
from copydesk.core.errors import InvalidRequest

ROLES = ("viewer", "editor", "admin")
"""Each may do what those before it may: look; start and steer jobs; change projects, keys and people."""
EMAIL_PATTERN = re.compile(r"[^\s<>@,;\"']{1,100}@[^\s<>@,;\"']{1,90}")


@dataclass(frozen=True)
class Person:
    id: str
    email: str
    name: str
    role: str
    created_at: int

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


PERSON_COLUMNS = [people.c[field.name] for field in fields(Person)]


def person_from_row(row: Row[*tuple[Any, ...]], prefix: str = "") -> Person:
    """From a row that has PERSON among its columns, under these names."""
    return Person(**{column.name: row._mapping[prefix + column.name] for column in PERSON_COLUMNS})


def validate_email(text: str) -> str:
    """Lower case throughout: nobody has two accounts that differ in that alone."""
    email = text.strip().lower()
    if not EMAIL_PATTERN.fullmatch(email) or not email.isprintable():
        raise InvalidRequest("Give an e-mail address, such as ada@example.org.")
    return email


def validate_name(text: str) -> str:
    name = text.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise InvalidRequest("A name has 1 to 200 printable characters.")
    return name


def validate_role(role: str) -> str:
    if role not in ROLES:
        raise InvalidRequest(f"A role is one of {', '.join(ROLES)}.")
    return role
