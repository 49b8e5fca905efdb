"""The API of context repositories: /v2/agent/{projectId}/context"""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from copydesk.core.clock import format_iso
from copydesk.core.projects.projects import MAX_REF_CHARS, REF_PATTERN
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.jobs.projects.context_mirrors import ContextRepository
from copydesk.jobs.projects.context_repositories import NAME_PATTERN, NewContext
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.schemas import ApiModel, RequestModel

router = APIRouter(prefix="/v2/agent/{projectId}", tags=["context repositories"], dependencies=[Depends(bearer)])

ContextName = Annotated[str, Path(alias="name", description="The name of the context repository.")]


class NewContextRequest(RequestModel):
    name: str = Field(max_length=40, pattern=NAME_PATTERN, examples=["api"])
    """How the agent and the pull request call it."""
    repository: str = Field(max_length=2000, examples=["https://github.com/example/api"])
    """Its https:// URL."""
    ref: Annotated[str, Field(max_length=MAX_REF_CHARS, json_schema_extra={"pattern": REF_PATTERN})] | None = None
    """The branch to read. The default is its default branch."""
    forge: Literal["local", "github", "gitlab", "gitea", "forgejo"] | None = None
    """Where it is hosted. By default, this is detected from the URL."""
    token: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    """A token that can read it. By default, the project's token is used if both are on the same host."""


class ContextResponse(ApiModel):
    name: str
    repository: str
    ref: str
    forge: str
    has_token: bool
    """Whether it has a token of its own, which is never shown."""
    created_at: str

    @classmethod
    def from_context(cls, context: ContextRepository) -> "ContextResponse":
        return cls(
            name=context.name,
            repository=context.repository,
            ref=context.ref,
            forge=context.forge,
            has_token=context.has_token,
            created_at=format_iso(context.created_at),
        )


class ContextListResponse(ApiModel):
    context: list[ContextResponse]


@router.get("/context", responses=error_responses(), operation_id="listContextRepositories")
async def list_contexts(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> ContextListResponse:
    """Lists the repositories that the project's agent may read besides the documentation."""
    contexts = await run_in_thread(desk.contexts.list, project.id)
    return ContextListResponse(context=[ContextResponse.from_context(context) for context in contexts])


@router.post("/context", status_code=201, responses=error_responses(409, 413, 415), operation_id="addContextRepository")
async def add_context(
    project_id: ProjectId, project: CurrentProject, body: NewContextRequest, desk: OpenDesk, request: Request
) -> ContextResponse:
    """Adds a repository that the agent may read. It must be readable now."""
    new = NewContext(body.name, body.repository, body.ref, body.forge, body.token)
    actor: str = request.state.key.id
    # The host may be slow, so this does not use the small thread pool that the other requests share.
    context = await asyncio.to_thread(desk.contexts.add, project, new, actor=actor, only_remote=True)
    return ContextResponse.from_context(context)


@router.delete(
    "/context/{name}", status_code=204, responses=error_responses(409), operation_id="removeContextRepository"
)
async def remove_context(
    project_id: ProjectId, name: ContextName, project: CurrentProject, desk: OpenDesk, request: Request
) -> None:
    """Removes a context repository, and the token that was stored for it. Refused while an automation watches it."""
    actor: str = request.state.key.id
    await run_in_thread(desk.contexts.remove, project.id, name, actor=actor)
