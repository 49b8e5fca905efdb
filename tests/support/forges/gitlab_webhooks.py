"""GitLab's webhooks: their headers and payloads as documented."""

import base64
import hashlib
import hmac
import time
from typing import Any, Literal

from tests.support.forges.gitlab_entities import GitLabEntity, State
from tests.support.forges.gitlab_shapes import GitLabShapes, Json, build_position, format_time
from tests.support.forges.state import Comment, Pull, Repository, User
from tests.support.forges.webhooks import Delivery, Hook

HOOK_ACTIONS = {"opened": "open", "closed": "close", "reopened": "reopen", "merged": "merge"}
EVENT_HEADER_NAMES = {
    "merge_request": "Merge Request Hook",
    "note": "Note Hook",
    "push": "Push Hook",
    "tag_push": "Tag Push Hook",
    "release": "Release Hook",
}


class HookUser(GitLabEntity):
    id: int
    name: str
    username: str
    avatar_url: str | None
    email: str


class HookProject(GitLabEntity):
    id: int
    name: str
    description: str | None
    web_url: str
    avatar_url: str | None
    git_ssh_url: str
    git_http_url: str
    namespace: str
    visibility_level: Literal[0, 10, 20]
    path_with_namespace: str
    default_branch: str
    ci_config_path: str | None
    homepage: str
    url: str
    ssh_url: str
    http_url: str


class HookRepository(GitLabEntity):
    name: str
    url: str
    description: str | None
    homepage: str


class HookCommit(GitLabEntity):
    id: str
    message: str
    title: str
    timestamp: str
    url: str
    author: dict[str, str]


class HookRequest(GitLabEntity):
    id: int
    iid: int
    target_branch: str
    source_branch: str
    source_project_id: int
    target_project_id: int
    author_id: int
    assignee_id: int | None
    assignee_ids: list[int]
    reviewer_ids: list[int]
    title: str
    description: str | None
    created_at: str
    updated_at: str
    state: State
    state_id: Literal[1, 2, 3, 4]
    detailed_merge_status: str
    draft: bool
    work_in_progress: bool
    merge_commit_sha: str | None
    url: str
    source: HookProject
    target: HookProject
    last_commit: HookCommit


class HookChangedRequest(HookRequest):
    action: Literal["open", "close", "reopen", "update", "approved", "unapproved", "approval", "unapproval", "merge"]


class HookNote(GitLabEntity):
    id: int
    internal: bool
    note: str
    noteable_type: Literal["MergeRequest"]
    noteable_id: int
    author_id: int
    created_at: str
    updated_at: str
    project_id: int
    attachment: None
    line_code: str | None
    commit_id: str | None
    system: bool
    st_diff: None
    type: Literal["DiffNote"] | None
    position: dict[str, Any] | None
    action: Literal["create", "update"]
    url: str


class MergeRequestEvent(GitLabEntity):
    object_kind: Literal["merge_request"]
    event_type: Literal["merge_request"]
    user: HookUser
    project: HookProject
    repository: HookRepository
    object_attributes: HookChangedRequest
    labels: list[dict[str, Any]]
    changes: dict[str, Any]


class NoteEvent(GitLabEntity):
    object_kind: Literal["note"]
    event_type: Literal["note"]
    user: HookUser
    project_id: int
    project: HookProject
    repository: HookRepository
    object_attributes: HookNote
    merge_request: HookRequest


def build_hook_project(web: str, repository: Repository) -> Json:
    page, ssh = f"{web}/{repository.path}", f"git@127.0.0.1:{repository.path}.git"
    return {
        "id": repository.id,
        "name": repository.name,
        **dict.fromkeys(("description", "avatar_url", "ci_config_path")),
        **dict.fromkeys(("web_url", "homepage"), page),
        **dict.fromkeys(("git_http_url", "http_url"), f"{page}.git"),
        **dict.fromkeys(("git_ssh_url", "ssh_url", "url"), ssh),
        "namespace": repository.owner,
        "visibility_level": 0 if repository.private else 20,
        "path_with_namespace": repository.path,
        "default_branch": repository.default_branch,
    }


def build_hook_request(shapes: GitLabShapes, pull: Pull) -> Json:
    request_data, ends = shapes.listed_merge_request(pull), build_hook_project(shapes.web, pull.repository)
    same = (
        "id iid target_branch source_branch source_project_id target_project_id title description created_at "
        "updated_at state detailed_merge_status draft work_in_progress merge_commit_sha"
    )
    last_commit = {"id": pull.sha, "message": "Change", "title": "Change", "timestamp": format_time(pull.updated)}
    author = {"name": "Ada", "email": "ada@example.org"}
    return {
        **{name: request_data[name] for name in same.split()},
        "author_id": pull.author.id,
        "assignee_id": None,
        "assignee_ids": [],
        "reviewer_ids": [one.id for one in pull.reviewers],
        "state_id": {"opened": 1, "closed": 2, "merged": 3}[request_data["state"]],
        "url": request_data["web_url"],
        "source": ends,
        "target": ends,
        "last_commit": {
            **last_commit,
            "url": f"{shapes.web}/{pull.repository.path}/-/commit/{pull.sha}",
            "author": author,
        },
    }


def build_hook_note(shapes: GitLabShapes, pull: Pull, comment: Comment) -> Json:
    note_data = shapes.note(pull, comment)
    same = "id internal noteable_type noteable_id created_at updated_at project_id attachment system type"
    at = build_position(pull, comment) if comment.file else None
    return {
        **{name: note_data[name] for name in same.split()},
        "note": comment.body,
        "author_id": comment.author.id,
        **dict.fromkeys(("line_code", "commit_id", "st_diff")),
        "position": at,
        "action": "create",
        "url": f"{shapes.pull_url(pull)}#note_{comment.id}",
    }


def build_payload(shapes: GitLabShapes, event: str, pull: Pull, who: User, comment: Comment | None) -> Json:
    project_data = build_hook_project(shapes.web, pull.repository)
    kind = "note" if comment else "merge_request"
    about: Json = {
        "object_kind": kind,
        "event_type": kind,
        "user": {
            **{name: shapes.user(who)[name] for name in ("id", "name", "username", "avatar_url")},
            "email": "[REDACTED]",
        },
        "project": project_data,
        "repository": {name: project_data[name] for name in ("name", "url", "description", "homepage")},
    }
    if comment:
        parts = {
            "object_attributes": build_hook_note(shapes, pull, comment),
            "merge_request": build_hook_request(shapes, pull),
        }
        return {**about, "project_id": pull.repository.id, **parts}
    labels = [{"id": pull.repository.label(name), "title": name} for name in pull.labels]
    request_data = {**build_hook_request(shapes, pull), "action": HOOK_ACTIONS[event]}
    return {**about, "object_attributes": request_data, "labels": labels, "changes": {}}


def build_headers(delivery: Delivery, hook: Hook, instance: str) -> dict[str, str]:
    """Builds the headers. A secret with the prefix `whsec_` signs (Standard Webhooks); any other is sent as is."""
    values = {
        "User-Agent": "GitLab/18.9.0",
        "X-Gitlab-Event": EVENT_HEADER_NAMES[delivery.event],
        "X-Gitlab-Instance": instance,
        "X-Gitlab-Webhook-UUID": f"00000000-0000-4000-8000-{hook.id:012}",
        "X-Gitlab-Event-UUID": delivery.id,
        "Idempotency-Key": delivery.id,
    }
    if not hook.secret.startswith("whsec_"):
        return {**values, "X-Gitlab-Token": hook.secret}
    key, now = base64.b64decode(hook.secret.removeprefix("whsec_")), str(int(time.time()))
    signed = hmac.new(key, f"{delivery.id}.{now}.".encode() + delivery.body, hashlib.sha256).digest()
    mark = f"v1,{base64.b64encode(signed).decode()}"
    return {**values, "webhook-id": delivery.id, "webhook-timestamp": now, "webhook-signature": mark}
