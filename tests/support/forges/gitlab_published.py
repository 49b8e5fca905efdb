"""GitLab's requests and operations, written down from its documentation."""

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from tests.support.forges.gitlab_entities import (
    CurrentUser,
    Fact,
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


class Loose(BaseModel):
    """A request that ignores unknown fields."""


class Said(Fact):
    """`message` is a sentence, a list of sentences, or lists by field; authentication and validation use `error`."""

    message: str | list[str] | dict[str, list[str]] | None = None
    error: str | None = None
    error_description: str | None = None
    scope: str | None = None


class Paged(Loose):
    id: str | None = None
    page: int | None = None
    per_page: int | None = Field(default=None, le=100)


class ListMergeRequests(Paged):
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


class Shared(Loose):
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


class CreateMergeRequest(Shared):
    title: str
    source_branch: str
    target_branch: str
    target_project_id: int | None = None


class UpdateMergeRequest(Shared):
    title: str | None = None
    target_branch: str | None = None
    state_event: Literal["close", "reopen"] | None = None
    add_labels: Names | None = None
    remove_labels: Names | None = None
    discussion_locked: bool | None = None


class CreateNote(Loose):
    body: str
    internal: bool | None = None


class FindUsers(Paged):
    username: str | None = None
    search: str | None = None


class Notes(Paged):
    merge_request_iid: int
    sort: Literal["asc", "desc"] | None = None
    order_by: Literal["created_at", "updated_at"] | None = None


class One(Loose):
    id: str | None = None
    merge_request_iid: int | None = None
    user_id: int | None = None


REQUEST = "/projects/{id}/merge_requests/{merge_request_iid}"
OPERATIONS = {
    one.line: replace(one, errors={400: Said})
    for one in (
        Operation("GET /projects/{id}", One, answer=Project),
        Operation("GET /projects/{id}/merge_requests", ListMergeRequests, answer=list[MergeRequestBasic]),
        Operation("POST /projects/{id}/merge_requests", One, CreateMergeRequest, MergeRequest),
        Operation(f"GET {REQUEST}", One, answer=MergeRequest),
        Operation(f"PUT {REQUEST}", One, UpdateMergeRequest, MergeRequest),
        Operation(f"GET {REQUEST}/notes", Notes, answer=list[Note]),
        Operation(f"POST {REQUEST}/notes", One, CreateNote, Note),
        Operation("GET /projects/{id}/members/all", Paged, answer=list[Member]),
        Operation("GET /projects/{id}/members/all/{user_id}", One, answer=Member),
        Operation("GET /users", FindUsers, answer=list[UserBasic]),
        Operation("GET /user", One, answer=CurrentUser),
        Operation("GET /personal_access_tokens/self", One, answer=PersonalToken),
    )
}
