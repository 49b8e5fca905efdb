"""Webhooks about pushes, tags and releases, as each forge documents them, checked against the published schema."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pyforgejo.types import Repository as GiteaRepository
from pyforgejo.types import User as GiteaUser

from tests.support.forges import github_published
from tests.support.forges.github_base import GitHubBase
from tests.support.forges.gitlab import GitLab
from tests.support.forges.gitlab_entities import GitLabEntity
from tests.support.forges.gitlab_webhooks import HookProject, build_hook_project
from tests.support.forges.state import Repository

ZEROS = "0" * 40
Json = dict[str, Any]


class GitLabPush(GitLabEntity):
    object_kind: Literal["push", "tag_push"]
    event_name: Literal["push", "tag_push"]
    before: str
    after: str
    ref: str
    ref_protected: bool
    checkout_sha: str | None
    message: str | None
    user_id: int
    user_name: str
    user_username: str
    user_email: str
    user_avatar: str | None
    project_id: int
    project: HookProject
    commits: list[Json]
    total_commits_count: int
    repository: Json


class GitLabRelease(GitLabEntity):
    id: int
    created_at: str
    description: str
    name: str
    released_at: str
    tag: str
    object_kind: Literal["release"]
    project: HookProject
    url: str
    action: Literal["create", "update", "delete"]
    assets: Json
    commit: Json


class GiteaPayload(BaseModel):
    model_config = ConfigDict(extra="forbid")
    repository: GiteaRepository
    sender: GiteaUser


class GiteaPush(GiteaPayload):
    ref: str
    before: str
    after: str
    compare_url: str
    commits: list[Json]
    total_commits: int
    head_commit: Json | None
    pusher: GiteaUser


class GiteaCreate(GiteaPayload):
    sha: str
    ref: str
    ref_type: Literal["branch", "tag"]


class GiteaRelease(GiteaPayload):
    action: Literal["published", "updated", "deleted"]
    release: Json


def send_push(fake: Any, ref: str, after: str, before: str = ZEROS, *, repository: Repository | None = None) -> None:
    """Sends what the forge sends when a branch or tag was pushed, created without commits, or deleted (zeros)."""
    repository = repository or fake.repository
    kind = _find_kind(fake)
    if kind == "gitlab":
        _send_gitlab_push(fake, repository, ref, after, before)
    elif kind == "github":
        _send_github_push(fake, repository, ref, after, before)
    else:
        _send_gitea_push(fake, repository, ref, after, before)


def send_release(fake: Any, tag: str, *, removed: bool = False) -> None:
    repository, kind = fake.repository, _find_kind(fake)
    if kind == "gitlab":
        page = f"{fake.url}/{repository.path}/-/releases/{tag}"
        about = {"id": 1, "created_at": "2026-11-02 12:55:12 UTC", "released_at": "2026-11-02 12:55:12 UTC"}
        about |= {"description": "", "name": tag, "tag": tag, "object_kind": "release", "url": page}
        rest: Json = {"action": "delete" if removed else "create", "assets": {}, "commit": {}}
        fake.publish("release", GitLabRelease, {**about, **rest, "project": build_hook_project(fake.url, repository)})
        return
    user = fake.shapes.user(fake.users["copydesk"])
    about = {"repository": fake.shapes.repository(repository), "sender": user}
    if kind == "github":
        release = {"tag_name": tag, "name": tag, "draft": False, "prerelease": False, "body": ""}
        payload = {"action": "deleted" if removed else "published", "release": release, **about}
        fake.webhooks.emit("release", payload)  # without the dozens of addresses that the description requires
        return
    action = "deleted" if removed else "published"
    fake.publish("release", GiteaRelease, {"action": action, "release": {"tag_name": tag}, **about})


def send_ping(fake: Any) -> None:
    """Sends GitHub's first delivery to a new webhook."""
    payload = {"zen": "Keep it logically awesome.", "hook_id": 1, "hook": {"type": "Repository", "events": ["push"]}}
    fake.webhooks.emit("ping", {**payload, "repository": fake.shapes.repository(fake.repository)})


def _find_kind(fake: Any) -> str:
    if isinstance(fake, GitHubBase):
        return "github"
    return "gitlab" if isinstance(fake, GitLab) else "gitea"


def _send_github_push(fake: Any, repository: Repository, ref: str, after: str, before: str) -> None:
    user = fake.shapes.user(fake.users["copydesk"])
    about = {"repository": fake.shapes.repository(repository), "sender": user}
    compare = f"{fake.url}/{repository.path}/compare/{before[:12]}...{after[:12]}"
    payload = {
        "ref": ref,
        "before": before,
        "after": after,
        "created": before == ZEROS,
        "deleted": after == ZEROS,
        "forced": False,
        "base_ref": None,
        "compare": compare,
        "commits": [],
        "head_commit": None,
        "pusher": {"name": "maintainer", "email": "maintainer@example.org"},
        **about,
    }
    # In this event alone, GitHub sends times of the repository as numbers, and the owner's name beside its login.
    payload["repository"] = {
        **about["repository"],
        "created_at": 1_700_000_000,
        "pushed_at": 1_700_000_000,
        "owner": {**about["repository"]["owner"], "name": repository.owner, "email": None},
    }
    fake.publish("push", github_published.model("WebhookPush"), payload)
    if before == ZEROS and after != ZEROS:
        kind, name = ("tag", ref[10:]) if ref.startswith("refs/tags/") else ("branch", ref[11:])
        created = {"ref": name, "ref_type": kind, "master_branch": "main", "description": None, "pusher_type": "user"}
        fake.publish("create", github_published.model("WebhookCreate"), {**created, **about})


def _send_gitlab_push(fake: Any, repository: Repository, ref: str, after: str, before: str) -> None:
    kind = "tag_push" if ref.startswith("refs/tags/") else "push"
    project = build_hook_project(fake.url, repository)
    payload: Json = {
        **dict.fromkeys(("object_kind", "event_name"), kind),
        "before": before,
        "after": after,
        "ref": ref,
        "ref_protected": True,
        "checkout_sha": None if after == ZEROS else after,
        "message": None,
        "user_id": 4,
        "user_name": "Maintainer",
        "user_username": "maintainer",
        "user_email": "",
        "user_avatar": None,
        "project_id": repository.id,
        "project": project,
        "commits": [],
        "total_commits_count": 0,
        "repository": {name: project[name] for name in ("name", "url", "description", "homepage", "git_http_url")},
    }
    fake.publish(kind, GitLabPush, payload)


def _send_gitea_push(fake: Any, repository: Repository, ref: str, after: str, before: str) -> None:
    user = fake.shapes.user(fake.users["copydesk"])
    about = {"repository": fake.shapes.repository(repository), "sender": user}
    if before == ZEROS and after != ZEROS:
        kind, name = ("tag", ref[10:]) if ref.startswith("refs/tags/") else ("branch", ref[11:])
        fake.publish("create", GiteaCreate, {"sha": after, "ref": name, "ref_type": kind, **about})
    payload = {
        "ref": ref,
        "before": before,
        "after": after,
        "compare_url": f"{fake.url}/{repository.path}/compare/{before}...{after}",
        "commits": [],
        "total_commits": 0,
        "head_commit": None,
        "pusher": user,
        **about,
    }
    fake.publish("push", GiteaPush, payload)
