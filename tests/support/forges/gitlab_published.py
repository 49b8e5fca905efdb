"""GitLab's requests and operations, written down from its documentation."""

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from tests.support.forges.gitlab_entities import (
    CurrentUser,
    GitLabEntity,
    Member,
    MergeRequest,
    MergeRequestBasic,
    Note,
    PersonalToken,
    Project,
    UserBasic,
)
from tests.support.forges.schema import Operation

Names = str | list[str]
Order = Literal[
    "created_at", "label_priority", "milestone_due", "popularity", "priority", "title", "updated_at", "merged_at"
]


class LenientRequest(BaseModel):
    """A request that ignores unknown fields."""


class ErrorResponse(GitLabEntity):
    """`message` is a sentence, a list of sentences, or lists by field; authentication and validation use `error`."""

    message: str | list[str] | dict[str, list[str]] | None = None
    error: str | None = None
    error_description: str | None = None
    scope: str | None = None


class PaginatedRequest(LenientRequest):
    id: str | None = None
    page: int | None = None
    per_page: int | None = Field(default=None, le=100)


class ListMergeRequests(PaginatedRequest):
    state: Literal["opened", "closed", "locked", "merged", "all"] | None = None
    source_branch: str | None = None
    target_branch: str | None = None
    order_by: Order | None = None
    sort: Literal["asc", "desc"] | None = None
    scope: Literal["created_by_me", "assigned_to_me", "reviews_for_me", "all"] | None = None
    view: Literal["simple"] | None = None
    author_username: str | None = None
    labels: Names | None = None
    search: str | None = None
    iids: list[int] | None = None


class MergeRequestFields(LenientRequest):
    """Fields of both creating and updating a merge request."""

    description: str | None = None
    assignee_id: int | None = None
    assignee_ids: list[int] | None = None
    reviewer_ids: list[int] | None = None
    labels: Names | None = None
    milestone_id: int | None = None
    remove_source_branch: bool | None = None
    allow_collaboration: bool | None = None
    squash: bool | None = None


class CreateMergeRequest(MergeRequestFields):
    title: str
    source_branch: str
    target_branch: str
    target_project_id: int | None = None


class UpdateMergeRequest(MergeRequestFields):
    title: str | None = None
    target_branch: str | None = None
    state_event: Literal["close", "reopen"] | None = None
    add_labels: Names | None = None
    remove_labels: Names | None = None
    discussion_locked: bool | None = None


class CreateNote(LenientRequest):
    body: str
    internal: bool | None = None


class FindUsers(PaginatedRequest):
    username: str | None = None
    search: str | None = None


class ListNotes(PaginatedRequest):
    merge_request_iid: int
    sort: Literal["asc", "desc"] | None = None
    order_by: Literal["created_at", "updated_at"] | None = None


class SingleRequest(LenientRequest):
    id: str | None = None
    merge_request_iid: int | None = None
    user_id: int | None = None


REQUEST = "/projects/{id}/merge_requests/{merge_request_iid}"
OPERATIONS = {
    one.line: replace(one, errors={400: ErrorResponse})
    for one in (
        Operation("GET /projects/{id}", SingleRequest, answer=Project),
        Operation("GET /projects/{id}/merge_requests", ListMergeRequests, answer=list[MergeRequestBasic]),
        Operation("POST /projects/{id}/merge_requests", SingleRequest, CreateMergeRequest, MergeRequest),
        Operation(f"GET {REQUEST}", SingleRequest, answer=MergeRequest),
        Operation(f"PUT {REQUEST}", SingleRequest, UpdateMergeRequest, MergeRequest),
        Operation(f"GET {REQUEST}/notes", ListNotes, answer=list[Note]),
        Operation(f"POST {REQUEST}/notes", SingleRequest, CreateNote, Note),
        Operation("GET /projects/{id}/members/all", PaginatedRequest, answer=list[Member]),
        Operation("GET /projects/{id}/members/all/{user_id}", SingleRequest, answer=Member),
        Operation("GET /users", FindUsers, answer=list[UserBasic]),
        Operation("GET /user", SingleRequest, answer=CurrentUser),
        Operation("GET /personal_access_tokens/self", SingleRequest, answer=PersonalToken),
    )
}
