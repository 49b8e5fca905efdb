"""GitHub (github.com or Enterprise Server), through its REST API."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forges.api_client import ApiClient, QueryParams
from copydesk.jobs.publish.forges.forge import Proposal, PullRequest, PullState
from copydesk.jobs.publish.forges.markers import mark_comment

GITHUB_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHubRepository(BaseModel):
    full_name: str
    archived: bool = False
    disabled: bool = False
    fork: bool = False
    has_pull_requests: bool = True
    permissions: dict[str, bool] | None = None


class RepositoryName(BaseModel):
    full_name: str


class PullHead(BaseModel):
    ref: str
    sha: str
    repo: RepositoryName | None = None
    """None when the fork was deleted."""


class GitHubPull(BaseModel):
    number: int
    html_url: str
    state: str
    title: str
    body: str | None = None
    draft: bool = False
    merged_at: datetime | None = None
    closed_at: datetime | None = None
    head: PullHead

    def to_pull_request(self) -> PullRequest:
        state: PullState = "merged" if self.merged_at else "open" if self.state == "open" else "closed"
        closed_at = int(self.closed_at.timestamp() * 1000) if self.closed_at else None
        return PullRequest(self.number, self.html_url, state, self.title, self.body or "", self.draft, self.head.ref,
                           self.head.sha, closed_at)  # fmt: skip


class Permission(BaseModel):
    permission: str


class BranchRule(BaseModel):
    type: str
    ruleset_id: int | None = None


class Ruleset(BaseModel):
    current_user_can_bypass: str = "never"


class GitHub:
    """A repository on GitHub, used with a person's token or with an App's, which is revoked on close."""

    def __init__(
        self,
        http: ApiClient,
        repository: str,
        get_token: Callable[[], str],
        revoke_token: Callable[[], None] | None = None,
    ) -> None:
        self.http, self.repository = http, repository
        self._get_token, self._revoke_token = get_token, revoke_token
        self._path = f"/repos/{quote(repository)}"

    def find_pulls(self, branch: str, base: str) -> list[PullRequest]:
        owner = self.repository.partition("/")[0]
        query: QueryParams = {"head": f"{owner}:{branch}", "state": "all", "per_page": 100}
        pulls = self.http.paginate(GitHubPull, f"{self._path}/pulls", query)
        return sorted(
            (pull.to_pull_request() for pull in pulls if self._is_own_branch(pull.head, branch)), key=lambda p: p.number
        )

    def get_pull(self, number: int) -> PullRequest:
        return self.http.request(GitHubPull, "GET", f"{self._path}/pulls/{number}").to_pull_request()

    def open_pull(self, proposal: Proposal) -> PullRequest:
        body: dict[str, Any] = {
            "title": proposal.title,
            "head": proposal.branch,
            "base": proposal.base,
            "body": proposal.body,
            "draft": proposal.draft,
        }
        try:
            return self._create_pull(body)
        except ForgeRefused as refusal:
            if refusal.status != 422 or "raft pull requests are not supported" not in str(refusal):
                raise
        return self._create_pull({**body, "draft": False})

    def update_pull(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        fields = {name: value for name, value in (("title", title), ("body", body)) if value is not None}
        self.http.request(GitHubPull, "PATCH", f"{self._path}/pulls/{pull.number}", body=fields)

    def add_comment(self, number: int, text: str) -> None:
        self.http.request(object, "POST", f"{self._path}/issues/{number}/comments", body={"body": mark_comment(text)})

    def close_pull(self, number: int) -> None:
        self.http.request(GitHubPull, "PATCH", f"{self._path}/pulls/{number}", body={"state": "closed"})

    def reopen_pull(self, number: int) -> None:
        self.http.request(GitHubPull, "PATCH", f"{self._path}/pulls/{number}", body={"state": "open"})

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Adds existing labels. Looks each one up first, because GitHub would create unknown labels."""
        missing = [label for label in labels if not self._exists(f"labels/{quote(label, safe='')}")]
        if existing := [label for label in labels if label not in missing]:
            self.http.request(object, "POST", f"{self._path}/issues/{number}/labels", body={"labels": existing})
        return [f"The repository has no label '{label}'." for label in missing]

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """Requests reviewers one by one, because one unknown name makes GitHub refuse all. A team is `org/team`."""
        notes = []
        for name in names:
            team = name.partition("/")[2]
            body = {"team_reviewers": [team]} if team else {"reviewers": [name]}
            try:
                self.http.request(object, "POST", f"{self._path}/pulls/{number}/requested_reviewers", body=body)
            except ForgeRefused as refusal:
                notes.append(f"{name} could not be added as a reviewer: {refusal}")
        return notes

    def find_access_problems(self, branch: str) -> list[str]:
        try:
            repository = self.http.request(GitHubRepository, "GET", self._path)
            scopes = self.http.get_header(self._path, "x-oauth-scopes")
        except ForgeRefused as refusal:
            if refusal.status == 404:
                return [f"{self.http.host} has no repository {self.repository}, or the token has no access to it."]
            return [str(refusal)]
        token_scopes = {scope.strip() for scope in (scopes or "").split(",")}
        # GitHub does not report an App's permissions here, but refuses to mint a token if they are missing.
        is_app = self._revoke_token is not None
        problems = {
            "is archived, so nothing can be pushed.": repository.archived,
            "is disabled.": repository.disabled,
            "is a fork. Use the repository that pull requests go to.": repository.fork,
            "has pull requests turned off.": not repository.has_pull_requests,
            "cannot be pushed to with this token. It needs write access to contents and pull requests.": (
                not is_app and repository.permissions is not None and not repository.permissions.get("push", False)
            ),
            "cannot be pushed to with this token. It lacks the scope repo (or public_repo).": (
                scopes is not None and not {"repo", "public_repo"} & token_scopes
            ),
            f"has a rule that forbids branches such as {branch}.": (not is_app and self._is_forbidden_by_rules(branch)),
        }
        return [f"{self.repository} {problem}" for problem, is_present in problems.items() if is_present]

    def can_write(self, user: str) -> bool:
        collaborator = self.http.get_or_none(
            Permission, f"{self._path}/collaborators/{quote(user, safe='')}/permission"
        )
        return collaborator is not None and collaborator.permission in ("admin", "write")

    def git_token(self) -> str | None:
        return self._get_token()

    def close(self) -> None:
        if self._revoke_token is not None:
            self._revoke_token()
        self.http.close()

    def _create_pull(self, body: dict[str, Any]) -> PullRequest:
        try:
            return self.http.request(GitHubPull, "POST", f"{self._path}/pulls", body=body).to_pull_request()
        except ForgeRefused as refusal:
            if refusal.status != 422:
                raise
            message = str(refusal).lower()
            if "already exists" in message:
                raise PullAlreadyOpen(str(refusal), status=422) from None
            if "no commits between" in message or "field: head" in message:
                raise BranchNotVisibleYet(str(refusal), status=422) from None
            raise

    def _is_own_branch(self, head: PullHead, branch: str) -> bool:
        is_same_repository = head.repo is not None and head.repo.full_name.casefold() == self.repository.casefold()
        return is_same_repository and head.ref == branch

    def _exists(self, resource: str) -> bool:
        return self.http.get_or_none(dict[str, Any], f"{self._path}/{resource}") is not None

    def _is_forbidden_by_rules(self, branch: str) -> bool:
        """Returns whether a ruleset forbids the branch; False on older Enterprise servers, which have no rulesets."""
        with suppress(ForgeRefused):
            rules = self.http.paginate(BranchRule, f"{self._path}/rules/branches/{quote(branch)}", {"per_page": 100})
            return any(rule.type in ("creation", "update") and not self._may_bypass(rule) for rule in rules)
        return False

    def _may_bypass(self, rule: BranchRule) -> bool:
        ruleset = (
            self.http.get_or_none(Ruleset, f"{self._path}/rulesets/{rule.ruleset_id}") if rule.ruleset_id else None
        )
        return ruleset is not None and ruleset.current_user_can_bypass in ("always", "exempt")
