"""Finds the project that a command works on: by its ID, or by its name."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from copydesk.core.errors import DataFolderMissing, InvalidRequest, ProjectNotFound
from copydesk.core.ids import is_id

if TYPE_CHECKING:
    from copydesk.core.projects.projects import Project
    from copydesk.desk import Desk


def find_project(desk: "Desk", id_or_name: str) -> "Project":
    """Returns the project. Raises ProjectNotFound, which says where it looked, or InvalidRequest for a shared name."""
    if is_id(id_or_name, "proj"):
        try:
            return desk.projects.get(id_or_name)
        except ProjectNotFound:
            raise _describe_missing(desk, id_or_name) from None
    projects = desk.projects.all()
    matches = [project for project in projects if project.name == id_or_name]
    matches = matches or [project for project in projects if project.name.casefold() == id_or_name.casefold()]
    if not matches:
        raise _describe_missing(desk, id_or_name)
    if len(matches) > 1:
        ids = ", ".join(project.id for project in matches)
        raise InvalidRequest(f"{len(matches)} projects are named '{id_or_name[:80]}': {ids}. Use the ID.")
    return matches[0]


def find_project_id(open_desk: "Callable[[], AbstractContextManager[Desk]]", id_or_name: str) -> str:
    """Returns the ID of a project for a command that calls the API, which knows projects by their IDs only.

    A name is looked up in the data folder.
    """
    if is_id(id_or_name, "proj"):
        return id_or_name
    try:
        with open_desk() as desk:
            return find_project(desk, id_or_name).id
    except DataFolderMissing as error:
        raise InvalidRequest(
            f"The project '{id_or_name[:80]}' is not given by its ID (proj_…), and it cannot be looked up by name: "
            f"{error}"
        ) from None


def _describe_missing(desk: "Desk", id_or_name: str) -> ProjectNotFound:
    names = {project.name.casefold(): project.name for project in desk.projects.all()}
    nearest = get_close_matches(id_or_name.casefold(), names, 1)
    suggestion = f"Did you mean '{names[nearest[0]]}'? " if nearest else ""
    return ProjectNotFound(
        f"There is no project '{id_or_name[:80]}' in {desk.settings.database_location}. {suggestion}"
        "'copydesk project list' lists the projects."
    )
