"""A person who can sign in, and their role."""

import re
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Row

from copydesk.core.db.tables import people
from copydesk.core.errors import InvalidRequest

ROLES = ("viewer", "editor", "admin")
"""In ascending order; each role includes the rights of the roles before it. A viewer reads, an editor starts and steers
jobs, and an admin changes projects, keys and people."""
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
    """Builds a person from a row with PERSON_COLUMNS, whose names begin with the prefix."""
    return Person(**{column.name: row._mapping[prefix + column.name] for column in PERSON_COLUMNS})


def validate_email(text: str) -> str:
    """Validates an email address and returns it in lower case, so that no two accounts differ only in case."""
    email = text.strip().lower()
    if not EMAIL_PATTERN.fullmatch(email) or not email.isprintable():
        raise InvalidRequest("Enter an email address, such as ada@example.org.")
    return email


def validate_role(role: str) -> str:
    if role not in ROLES:
        raise InvalidRequest(f"The role must be one of {', '.join(ROLES)}.")
    return role
