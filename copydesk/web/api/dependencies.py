"""The parameters that handlers share: the desk, the project of the API key, IDs in paths, and error responses."""

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.security import HTTPBearer

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from copydesk.jobs.job import Creator, CreatorKind
from copydesk.web.api.schemas import ErrorResponse

bearer = HTTPBearer(bearerFormat="desk_…", description="An API key of the project.", auto_error=False)


async def get_desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


async def get_current_project(request: Request) -> Project:
    """Returns the project of the request's API key."""
    project: Project = request.state.project
    return project


def creator_from_key(key: ApiKey) -> Creator:
    return Creator(kind=CreatorKind.KEY, name=key.name, id=key.id)


async def get_creator(request: Request) -> Creator:
    """Returns the API key of the request, as the creator of a job or message."""
    return creator_from_key(request.state.key)


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorResponse} for status in (400, 401, 403, 404, *statuses, 500, 503)}


OpenDesk = Annotated[Desk, Depends(get_desk)]


CurrentCreator = Annotated[Creator, Depends(get_creator)]


CurrentProject = Annotated[Project, Depends(get_current_project)]


ProjectId = Annotated[str, Path(alias="projectId", description="The project ID, as shown on the page API keys.")]


IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=128,
        pattern="^[!-~]*$",
        description="A unique key. Repeating a request with the same key creates no second job.",
    ),
]
