"""A person who can sign in, and their roles: one in all projects, and others in single projects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Row

from copydesk.core.db.tables import people
from copydesk.core.errors import InvalidRequest, NotFound

ROLES = ("viewer", "editor", "admin")
"""In ascending order; each role includes the rights of the roles before it. A viewer reads, an editor starts and steers
jobs, and an admin changes projects, keys and people."""
NO_ROLE = "none"
"""The role in all projects of people who may see only the projects in which they have a role."""
GLOBAL_ROLES = (NO_ROLE, *ROLES)
EMAIL_PATTERN = re.compile(r"[^\s<>@,;\"']{1,100}@[^\s<>@,;\"']{1,90}")


class PersonNotFound(NotFound):
    code = "person_not_found"
    message = "There is no such person."


@dataclass(frozen=True)
class Person:
    id: str
    email: str
    name: str
    role: str
    created_at: int
    project_roles: Mapping[str, str] = field(default_factory=dict)
    """The roles in single projects, by project id. Empty unless they were loaded with the person."""

    def role_in(self, project_id: str) -> str:
        """Returns the role in a project; NO_ROLE means that the person may not know that the project exists.

        Everything that shows a project to a person asks this function, or `sees`.
        """
        return max(self.role, self.project_roles.get(project_id, NO_ROLE), key=GLOBAL_ROLES.index)

    def sees(self, project_id: str) -> bool:
        return self.role_in(project_id) != NO_ROLE

    def may(self, role: str) -> bool:
        """Returns whether the person has at least this role in all projects."""
        return includes_role(self.role, role)


def includes_role(held: str, required: str) -> bool:
    return GLOBAL_ROLES.index(held) >= GLOBAL_ROLES.index(required)


PERSON_COLUMNS = [people.c[each.name] for each in fields(Person) if each.name != "project_roles"]


def person_from_row(
    row: Row[*tuple[Any, ...]], prefix: str = "", project_roles: Mapping[str, str] | None = None
) -> Person:
    """Builds a person from a row with PERSON_COLUMNS, whose names begin with the prefix."""
    values = {column.name: row._mapping[prefix + column.name] for column in PERSON_COLUMNS}
    return Person(**values, project_roles=project_roles or {})


def person_to_row(person: Person) -> dict[str, Any]:
    return {column.name: getattr(person, column.name) for column in PERSON_COLUMNS}


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


def validate_global_role(role: str) -> str:
    if role not in GLOBAL_ROLES:
        raise InvalidRequest(f"The role must be one of {', '.join(GLOBAL_ROLES)}.")
    return role
