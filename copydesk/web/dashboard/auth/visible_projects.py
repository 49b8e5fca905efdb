"""Decides which projects a signed-in person may see. Every list over several projects asks here."""

from copydesk.core.projects.projects import Project
from copydesk.web.dashboard.auth.access import SignedInRequest


def list_visible_projects(signed_in: SignedInRequest) -> list[Project]:
    """Returns the projects that this person may see."""
    return [project for project in signed_in.desk.projects.all() if signed_in.person.sees(project.id)]
