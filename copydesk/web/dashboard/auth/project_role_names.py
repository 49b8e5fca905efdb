"""Roles in single projects with the names of the projects, as pages show them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from copydesk.core.projects.projects import Project
from copydesk.desk import Desk

ROLE_HELP = (
    ("viewer", "can see everything except secrets"),
    ("editor", "can also start and manage jobs, and merge or close pull requests"),
    ("admin", "can also change projects, secrets, keys and people"),
)


class NamedProjectRole(NamedTuple):
    project_id: str
    name: str
    role: str


def list_project_roles(desk: Desk, project_roles: Mapping[str, str]) -> list[NamedProjectRole]:
    """Returns the roles with the names of their projects, ordered by name. Leaves out deleted projects."""
    return name_project_roles(desk.projects.all(), project_roles) if project_roles else []


def name_project_roles(projects: Iterable[Project], project_roles: Mapping[str, str]) -> list[NamedProjectRole]:
    """Returns the roles with the names of their projects, ordered by name. Leaves out projects that are not given."""
    named = [
        NamedProjectRole(project.id, project.name, project_roles[project.id])
        for project in projects
        if project.id in project_roles
    ]
    return sorted(named, key=lambda each: (each.name.casefold(), each.project_id))
