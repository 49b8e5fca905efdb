"""The API of links that share analytics: /v1/analytics/{projectId}/shares"""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from copydesk.core.clock import DAY, format_iso, format_iso_or_none
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.sharing.share_links import ShareLink
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.schemas import ApiModel, LenientRequestModel

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["sharing"], dependencies=[Depends(bearer)])

SharedPart = Literal["overview", "pages", "agents", "missing", "searches", "badge"]
MAX_NAME_CHARS = 200
ShareId = Annotated[str, Path(alias="shareId", description="The ID of the link.")]


class NewShareRequest(LenientRequestModel):
    parts: list[SharedPart] = Field(default_factory=list, max_length=6, examples=[["overview", "pages"]])
    """What the link shows: overview, pages, agents, missing and searches; or badge, alone. By default, it shows
    overview, pages and agents."""
    name: str = Field("", max_length=MAX_NAME_CHARS)
    """What the link is for."""
    expires_in_days: int | None = Field(None, alias="expiresInDays", ge=1, le=3660)
    """After how many days the link ends. By default, it works until it is revoked."""


class ShareResponse(ApiModel):
    id: str
    name: str
    parts: list[SharedPart]
    created_at: str
    created_by: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None

    @classmethod
    def from_link(cls, link: ShareLink) -> "ShareResponse":
        return cls(**_describe_link(link))


class CreatedShareResponse(ShareResponse):
    url: str
    """The address of the shared page or badge. It is shown only once."""


class ShareListResponse(ApiModel):
    shares: list[ShareResponse]
    """Newest first, including links that were revoked or have expired."""


@router.get("/shares", responses=error_responses(), operation_id="listShares")
async def list_shares(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> ShareListResponse:
    """Lists the links that share the project's analytics, without their secret part."""
    links = await run_in_thread(desk.sharing.links.list_for_project, project.id)
    return ShareListResponse(shares=[ShareResponse.from_link(link) for link in links])


@router.post("/shares", status_code=201, responses=error_responses(409, 413, 415), operation_id="createShare")
async def create_share(
    project_id: ProjectId, project: CurrentProject, body: NewShareRequest, desk: OpenDesk, request: Request
) -> CreatedShareResponse:
    """Creates a link to public pages, or to a badge."""
    created = await run_in_thread(
        desk.sharing.links.create,
        project.id,
        parts=body.parts,
        name=body.name,
        expires_in=None if body.expires_in_days is None else body.expires_in_days * DAY,
        actor=request.state.key.id,
    )
    url = desk.settings.base_url + created.link.path(created.token)
    return CreatedShareResponse(url=url, **_describe_link(created.link))


@router.delete("/shares/{shareId}", status_code=204, responses=error_responses(), operation_id="revokeShare")
async def revoke_share(
    project_id: ProjectId, share_id: ShareId, project: CurrentProject, desk: OpenDesk, request: Request
) -> None:
    """Revokes a link, immediately and permanently."""
    await run_in_thread(desk.sharing.links.revoke, project.id, share_id, actor=request.state.key.id)


def _describe_link(link: ShareLink) -> dict[str, object]:
    return {
        "id": link.id,
        "name": link.name,
        "parts": list(link.parts),
        "created_at": format_iso(link.created_at),
        "created_by": link.created_by,
        "expires_at": format_iso_or_none(link.expires_at),
        "last_used_at": format_iso_or_none(link.last_used_at),
        "revoked_at": format_iso_or_none(link.revoked_at),
    }
