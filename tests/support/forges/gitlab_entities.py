"""GitLab's responses, written down from its documentation: no package on PyPI has a schema.

Its own OpenAPI file names no required fields and has numbers as text, so these models are the stricter source: a field
is required if GitLab sends it on every edition, and `None` appears only where the documentation shows null.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

State = Literal["opened", "closed", "locked", "merged"]


class GitLabEntity(BaseModel):
    model_config = ConfigDict(extra="forbid")


class UserBasic(GitLabEntity):
    id: int
    username: str
    name: str
    state: Literal["active", "blocked"]
    locked: bool
    avatar_url: str | None
    web_url: str
    public_email: str | None = None


class Member(UserBasic):
    access_level: Literal[5, 10, 15, 20, 30, 40, 50]
    created_at: datetime
    expires_at: str | None
    membership_state: str
    created_by: UserBasic | None = None


class CurrentUser(UserBasic):
    created_at: datetime
    email: str
    bio: str | None
    bot: bool
    external: bool
    can_create_project: bool


class Namespace(GitLabEntity):
    id: int
    name: str
    path: str
    kind: Literal["group", "user"]
    full_path: str
    parent_id: int | None
    avatar_url: str | None
    web_url: str


class Access(GitLabEntity):
    access_level: int
    notification_level: int


class Permissions(GitLabEntity):
    project_access: Access | None
    group_access: Access | None


class Project(GitLabEntity):
    id: int
    description: str | None
    name: str
    name_with_namespace: str
    path: str
    path_with_namespace: str
    created_at: datetime
    default_branch: str
    tag_list: list[str]
    topics: list[str]
    ssh_url_to_repo: str
    http_url_to_repo: str
    web_url: str
    readme_url: str | None
    avatar_url: str | None
    forks_count: int
    star_count: int
    last_activity_at: datetime
    namespace: Namespace
    archived: bool
    visibility: Literal["private", "internal", "public"]
    empty_repo: bool
    creator_id: int
    merge_requests_enabled: bool
    merge_requests_access_level: Literal["disabled", "private", "enabled"]
    merge_method: Literal["merge", "rebase_merge", "ff"]
    permissions: Permissions
    forked_from_project: dict[str, Any] | None = None


class References(GitLabEntity):
    short: str
    relative: str
    full: str


class TimeStats(GitLabEntity):
    time_estimate: int
    total_time_spent: int
    human_time_estimate: str | None
    human_total_time_spent: str | None


class TaskCompletion(GitLabEntity):
    count: int
    completed_count: int


class MergeRequestBasic(GitLabEntity):
    id: int
    iid: int
    project_id: int
    title: str
    description: str | None
    state: State
    created_at: datetime
    updated_at: datetime
    merged_by: UserBasic | None
    merge_user: UserBasic | None
    merged_at: datetime | None
    closed_by: UserBasic | None
    closed_at: datetime | None
    target_branch: str
    source_branch: str
    user_notes_count: int
    upvotes: int
    downvotes: int
    author: UserBasic
    assignees: list[UserBasic]
    assignee: UserBasic | None
    reviewers: list[UserBasic]
    source_project_id: int
    target_project_id: int
    labels: list[str]
    draft: bool
    imported: bool
    imported_from: str
    work_in_progress: bool
    milestone: None
    merge_when_pipeline_succeeds: bool
    merge_status: Literal["unchecked", "checking", "can_be_merged", "cannot_be_merged", "cannot_be_merged_recheck"]
    detailed_merge_status: str
    merge_after: datetime | None
    sha: str
    merge_commit_sha: str | None
    squash_commit_sha: str | None
    discussion_locked: bool | None
    should_remove_source_branch: bool | None
    force_remove_source_branch: bool | None
    prepared_at: datetime | None
    reference: str
    references: References
    web_url: str
    time_stats: TimeStats
    squash: bool
    squash_on_merge: bool
    task_completion_status: TaskCompletion
    has_conflicts: bool
    blocking_discussions_resolved: bool


class DiffRefs(GitLabEntity):
    base_sha: str
    head_sha: str
    start_sha: str


class MergePermissions(GitLabEntity):
    can_merge: bool


class MergeRequest(MergeRequestBasic):
    subscribed: bool
    changes_count: str | None
    latest_build_started_at: datetime | None
    latest_build_finished_at: datetime | None
    first_deployed_to_production_at: datetime | None
    pipeline: None
    head_pipeline: None
    diff_refs: DiffRefs
    merge_error: str | None
    first_contribution: bool
    user: MergePermissions


class Note(GitLabEntity):
    id: int
    type: Literal["DiffNote", "DiscussionNote"] | None
    body: str
    attachment: None
    author: UserBasic
    created_at: datetime
    updated_at: datetime
    system: bool
    noteable_id: int
    noteable_type: Literal["MergeRequest"]
    noteable_iid: int
    project_id: int
    resolvable: bool
    confidential: bool
    internal: bool
    imported: bool
    imported_from: str
    commands_changes: dict[str, Any]
    position: dict[str, Any] | None = None
    """Only a comment on a line has it."""


class PersonalToken(GitLabEntity):
    id: int
    name: str
    revoked: bool
    created_at: datetime
    description: str | None
    scopes: list[str]
    user_id: int
    last_used_at: datetime | None
    active: bool
    expires_at: str | None
