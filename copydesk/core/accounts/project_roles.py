"""Roles of people in single projects, beside the role that each has in all projects."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from copydesk.core import audit_log, clock
from copydesk.core.accounts.api_keys import ApiKeys
from copydesk.core.accounts.person import (
    NO_ROLE,
    PERSON_COLUMNS,
    Person,
    PersonNotFound,
    person_from_row,
    validate_role,
)
from copydesk.core.db.database import Database, batch_ids
from copydesk.core.db.tables import people, project_roles, projects
from copydesk.core.errors import ProjectNotFound
from copydesk.core.projects.missing_projects import refuse_missing_project


class ProjectMember(NamedTuple):
    person: Person
    role: str
    """The role in the project, without the role in all projects."""
    created_at: int
    created_by: str


class ProjectRoles:
    def __init__(self, database: Database, keys: ApiKeys) -> None:
        self.database = database
        self._keys = keys

    def load_all(self) -> dict[str, dict[str, str]]:
        """Returns the roles of all people who have any, by person id and then project id."""
        with self.database.read() as tx:
            return load_project_roles(tx)

    def load(self, person: Person) -> dict[str, str]:
        """Returns the roles of a person in single projects, by project id."""
        with self.database.read() as tx:
            return load_project_roles(tx, [person.id]).get(person.id, {})

    def list_members(self, project_id: str) -> list[ProjectMember]:
        """Returns the people who have a role in this project, ordered by email address."""
        query = (
            select(*PERSON_COLUMNS, project_roles.c.role.label("project_role"))
            .add_columns(project_roles.c.created_at.label("since"), project_roles.c.created_by)
            .join(project_roles, project_roles.c.person_id == people.c.id)
            .where(project_roles.c.project_id == project_id)
        )
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(people.c.email)).all()
        return [ProjectMember(person_from_row(row), row.project_role, row.since, row.created_by) for row in rows]

    def set_role(self, person_id: str, project_id: str, role: str, *, actor: str, keep_keys: bool = False) -> int:
        """Gives a person a role in a project or changes it, at once, also in open sessions. NO_ROLE removes it.

        A person who stops being an administrator of the project loses the keys that they created in it, unless
        `keep_keys`. Returns how many keys were revoked.
        """
        if role != NO_ROLE:
            validate_role(role)
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            person = self._lock_person(tx, person_id)
            if tx.execute(select(projects.c.id).where(projects.c.id == project_id)).first() is None:
                raise ProjectNotFound
            before = self._store(tx, person, project_id, role, actor)
            if before == role:
                return 0
            revoked = 0
            details = {"email": person.email, "before": before, "role": role}
            if before == "admin" and not person.may("admin"):
                if not keep_keys:
                    reason = f"{person.email} is no longer an administrator of the project"
                    revoked = self._keys.revoke_created_by(
                        tx, person.email, actor=actor, reason=reason, project_id=project_id
                    )
                details["keys"] = "kept" if keep_keys else f"{revoked} revoked"
            audit_log.record(tx, project_id, actor, _choose_action(before, role), person.id, **details)
        return revoked

    def _lock_person(self, tx: Connection, person_id: str) -> Person:
        """Returns the person, locked until the transaction ends, so that changes of their roles wait for each other."""
        query = select(*PERSON_COLUMNS).where(people.c.id == person_id)
        row = tx.execute(query.with_for_update()).first()
        if row is None:
            raise PersonNotFound
        return person_from_row(row)

    def _store(self, tx: Connection, person: Person, project_id: str, role: str, actor: str) -> str:
        """Stores the role and returns the one before."""
        is_row = (project_roles.c.person_id == person.id) & (project_roles.c.project_id == project_id)
        before: str = tx.execute(select(project_roles.c.role).where(is_row)).scalar() or NO_ROLE
        if role == NO_ROLE:
            tx.execute(delete(project_roles).where(is_row))
        elif before == NO_ROLE:
            add_project_roles(tx, person, {project_id: role}, actor)
        elif before != role:
            tx.execute(update(project_roles).where(is_row).values(role=role))
        return before


def load_project_roles(tx: Connection, person_ids: Collection[str] | None = None) -> dict[str, dict[str, str]]:
    """Returns the roles in single projects by person id and project id, of these people or of all."""
    query = select(project_roles.c.person_id, project_roles.c.project_id, project_roles.c.role)
    roles: dict[str, dict[str, str]] = defaultdict(dict)
    queries = (
        [query]
        if person_ids is None
        else [query.where(project_roles.c.person_id.in_(batch)) for batch in batch_ids(person_ids)]
    )
    for each in queries:
        for person_id, project_id, role in tx.execute(each):
            roles[person_id][project_id] = role
    return dict(roles)


def add_project_roles(tx: Connection, person: Person, roles: Mapping[str, str], actor: str) -> None:
    """Stores the roles of a person who has none in these projects."""
    for project_id, role in roles.items():
        row = {"person_id": person.id, "project_id": project_id, "role": role}
        tx.execute(insert(project_roles).values({**row, "created_at": clock.now(), "created_by": actor}))


def remove_project_roles(tx: Connection, person: Person, *, actor: str) -> None:
    """Removes all roles of a person in single projects, with an entry in the audit log of each."""
    for project_id in load_project_roles(tx, [person.id]).get(person.id, {}):
        audit_log.record(tx, project_id, actor, "access.removed", person.id, email=person.email)
    tx.execute(delete(project_roles).where(project_roles.c.person_id == person.id))


def _choose_action(before: str, role: str) -> str:
    if before == NO_ROLE:
        return "access.granted"
    return "access.removed" if role == NO_ROLE else "access.changed"
