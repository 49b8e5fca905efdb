"""GitLab (gitlab.com or self-managed), through its REST API. GitLab calls a pull request a merge request."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forges.api_client import ApiClient, QueryParams
from copydesk.jobs.publish.forges.forge import Proposal, PullRequest, PullState
from copydesk.jobs.publish.forges.markers import mark_comment, set_draft_mark, strip_draft_marks

DRAFT_MARK = "Draft: "
DRAFT_MARK_PATTERN = r"(?:\[draft\]|\(draft\)|draft:|draft - )"
DEVELOPER_LEVEL, OWNER_LEVEL = 30, 50


class MemberAccess(BaseModel):
    access_level: int = 0


class ProjectPermissions(BaseModel):
    project_access: MemberAccess | None = None
    group_access: MemberAccess | None = None


class ParentProject(BaseModel):
    id: int


class GitLabProject(BaseModel):
    id: int
    archived: bool = False
    forked_from_project: ParentProject | None = None
    merge_requests_access_level: str | None = None
    permissions: ProjectPermissions | None = None


class GitLabMergeRequest(BaseModel):
    iid: int
    web_url: str
    state: str
    title: str
    description: str | None = None
    draft: bool = False
    source_branch: str
    source_project_id: int | None = None
    target_project_id: int
    sha: str | None = None
    closed_at: datetime | None = None
    merged_at: datetime | None = None

    def to_pull_request(self) -> PullRequest:
        states: dict[str, PullState] = {"merged": "merged", "closed": "closed"}
        ended_at = self.merged_at or self.closed_at
        return PullRequest(
            number=self.iid,
            url=self.web_url,
            state=states.get(self.state, "open"),  # "opened", or "locked" during a merge
            title=strip_draft_marks(self.title, DRAFT_MARK_PATTERN),
            body=self.description or "",
            draft=self.draft,
            branch=self.source_branch,
            head=self.sha,
            closed_at=int(ended_at.timestamp() * 1000) if ended_at else None,
        )


class GitLabUser(BaseModel):
    id: int
    username: str


class TokenInfo(BaseModel):
    scopes: list[str]


class PushAccess(BaseModel):
    access_level: int | None = None
    """None when the rule allows a specific user or group instead of a role."""


class ProtectedBranchRule(BaseModel):
    name: str
    push_access_levels: list[PushAccess] = []


class GitLab:
    def __init__(self, http: ApiClient, repository: str, token: str) -> None:
        self.http, self.repository, self._token = http, repository, token
        self._path = f"/projects/{quote(repository, safe='')}"

    def find_pulls(self, branch: str, base: str) -> list[PullRequest]:
        query: QueryParams = {"source_branch": branch, "state": "all", "scope": "all", "per_page": 100}
        merge_requests = self.http.paginate(GitLabMergeRequest, f"{self._path}/merge_requests", query)
        own = [p for p in merge_requests if p.source_branch == branch and p.source_project_id == p.target_project_id]
        return sorted((pull.to_pull_request() for pull in own), key=lambda p: p.number)

    def get_pull(self, number: int) -> PullRequest:
        return self.http.request(GitLabMergeRequest, "GET", f"{self._path}/merge_requests/{number}").to_pull_request()

    def open_pull(self, proposal: Proposal) -> PullRequest:
        body = {
            "source_branch": proposal.branch,
            "target_branch": proposal.base,
            "title": set_draft_mark(proposal.title, DRAFT_MARK if proposal.draft else "", DRAFT_MARK_PATTERN),
            "description": proposal.body,
        }
        try:
            return self.http.request(
                GitLabMergeRequest, "POST", f"{self._path}/merge_requests", body=body
            ).to_pull_request()
        except ForgeRefused as refusal:
            message = str(refusal).lower()
            if refusal.status == 409 or "already exists" in message:
                raise PullAlreadyOpen(str(refusal), status=refusal.status) from None
            if refusal.status in (400, 404, 422) and "source" in message:
                raise BranchNotVisibleYet(str(refusal), status=refusal.status) from None
            raise

    def update_pull(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        marked_title = (
            None if title is None else set_draft_mark(title, DRAFT_MARK if pull.draft else "", DRAFT_MARK_PATTERN)
        )
        self._update_merge_request(pull.number, {"title": marked_title, "description": body})

    def add_comment(self, number: int, text: str) -> None:
        self.http.request(
            object, "POST", f"{self._path}/merge_requests/{number}/notes", body={"body": mark_comment(text)}
        )

    def close_pull(self, number: int) -> None:
        self._update_merge_request(number, {"state_event": "close"})

    def reopen_pull(self, number: int) -> None:
        self._update_merge_request(number, {"state_event": "reopen"})

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Adds existing labels. Looks each one up first, because GitLab would create unknown labels."""
        missing = [label for label in labels if not self._has_label(label)]
        if existing := [label for label in labels if label not in missing]:
            self._update_merge_request(number, {"add_labels": ",".join(existing)})
        return [f"The project has no label '{label}'." for label in missing]

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        user_ids = {name: self._find_user_id(name) for name in names}
        if ids := [user for user in user_ids.values() if user is not None]:
            self._update_merge_request(number, {"reviewer_ids": ids})
        return [
            f"{name} could not be added as a reviewer: there is no such user."
            for name in names
            if user_ids[name] is None
        ]

    def find_access_problems(self, branch: str) -> list[str]:
        try:
            project = self.http.request(GitLabProject, "GET", self._path)
        except ForgeRefused as refusal:
            if refusal.status == 404:
                return [f"{self.http.host} has no project {self.repository}, or the token has no access to it."]
            return [str(refusal)]
        permissions = project.permissions or ProjectPermissions()
        access_levels = [
            access.access_level for access in (permissions.project_access, permissions.group_access) if access
        ]
        level = max(access_levels, default=OWNER_LEVEL)  # GitLab does not report access through an invited group
        problems = {
            "is archived, so nothing can be pushed.": project.archived,
            "is a fork. Use the project that merge requests go to.": project.forked_from_project is not None,
            "has merge requests turned off.": project.merge_requests_access_level == "disabled",
            "cannot be pushed to with this token. It needs the role Developer.": level < DEVELOPER_LEVEL,
            "cannot be written to with this token. It lacks the scope api.": self._lacks_scope(),
            f"does not allow this token's role to push to branches such as {branch}.": self._is_protected(
                branch, level
            ),
        }
        return [f"{self.repository} {problem}" for problem, is_present in problems.items() if is_present]

    def can_write(self, user: str) -> bool:
        user_id = self._find_user_id(user)
        member = (
            self.http.get_or_none(MemberAccess, f"{self._path}/members/all/{user_id}") if user_id is not None else None
        )
        return member is not None and member.access_level >= DEVELOPER_LEVEL

    def git_token(self) -> str | None:
        return self._token

    def close(self) -> None:
        self.http.close()

    def _update_merge_request(self, number: int, values: dict[str, Any]) -> None:
        fields = {name: value for name, value in values.items() if value is not None}
        self.http.request(GitLabMergeRequest, "PUT", f"{self._path}/merge_requests/{number}", body=fields)

    def _find_user_id(self, name: str) -> int | None:
        users = self.http.request(list[GitLabUser], "GET", "/users", query={"username": name})
        return next((user.id for user in users if user.username.casefold() == name.casefold()), None)

    def _has_label(self, label: str) -> bool:
        return self.http.get_or_none(dict[str, Any], f"{self._path}/labels/{quote(label, safe='')}") is not None

    def _lacks_scope(self) -> bool:
        """Returns whether the token lacks the scope `api`; False for tokens that cannot look up their scopes."""
        with suppress(ForgeRefused):
            return "api" not in self.http.request(TokenInfo, "GET", "/personal_access_tokens/self").scopes
        return False

    def _is_protected(self, branch: str, level: int) -> bool:
        with suppress(ForgeRefused):
            for rule in self.http.paginate(ProtectedBranchRule, f"{self._path}/protected_branches", {"per_page": 100}):
                push_levels = [access.access_level for access in rule.push_access_levels]
                allowed = any(one is None or 0 < one <= level for one in push_levels)
                if fnmatchcase(branch, rule.name) and not allowed:
                    return True
        return False
