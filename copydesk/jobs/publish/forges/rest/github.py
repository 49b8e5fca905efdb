"""GitHub (github.com or Enterprise Server), through its REST API."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.job import PullState
from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forges.forge import PlannedCommit, Proposal, PullComment, PullRequest
from copydesk.jobs.publish.forges.rest.api_client import ApiClient, QueryParams
from copydesk.jobs.publish.forges.rest.comments import (
    CommentAuthor,
    CommentText,
    ListedComment,
    format_since,
    sort_comments,
    to_milliseconds_or_none,
)
from copydesk.jobs.publish.forges.rest.push_rules import GitHubRule, find_broken_github_rule
from copydesk.jobs.publish.forges.rest.rest_forge import AccessCheck, Permission, PullHead, RestForge

TEAM_ADVICE = "For reviews by a team, the GitHub App needs the organization permission Members (read)."
GITHUB_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHubRepository(BaseModel):
    full_name: str
    archived: bool = False
    disabled: bool = False
    fork: bool = False
    has_pull_requests: bool = True
    permissions: dict[str, bool] | None = None


class GitHubHead(PullHead):
    sha: str


class GitHubPull(BaseModel):
    number: int
    html_url: str
    state: str
    title: str
    body: str | None = None
    draft: bool = False
    merged_at: datetime | None = None
    closed_at: datetime | None = None
    updated_at: datetime | None = None
    head: GitHubHead
    user: CommentAuthor | None = None

    def to_pull_request(self) -> PullRequest:
        state: PullState = "merged" if self.merged_at else "open" if self.state == "open" else "closed"
        closed_at = to_milliseconds_or_none(self.closed_at)
        updated_at = to_milliseconds_or_none(self.updated_at)
        return PullRequest(self.number, self.html_url, state, self.title, self.body or "", self.draft, self.head.ref,
                           self.head.sha, closed_at, updated_at, self.user.login if self.user else "")  # fmt: skip


class Ruleset(BaseModel):
    current_user_can_bypass: str = "never"


class GitHubBranch(BaseModel):
    name: str


REVIEW_RULES = {"update", "pull_request", "required_status_checks", "merge_queue", "required_deployments", "workflows"}
"""The rules after which a change needs a pull request."""


class GitHub(RestForge):
    """A repository on GitHub, used with a person's token or with an App's, which is revoked on close."""

    pull_model = GitHubPull

    def __init__(
        self,
        http: ApiClient,
        repository: str,
        get_token: Callable[[], str],
        revoke_token: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(http, repository, get_token)
        self._revoke_token = revoke_token

    def open_pull(self, proposal: Proposal) -> PullRequest:
        """Opens a pull request; not as a draft if the repository does not support drafts."""
        try:
            return super().open_pull(proposal)
        except ForgeRefused as refusal:
            if refusal.status != 422 or "raft pull requests are not supported" not in str(refusal):
                raise
        return super().open_pull(replace(proposal, draft=False))

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """Requests reviewers. Explains GitHub's obscure answer to an App that cannot read the organization's teams."""
        return [
            f"{note} {TEAM_ADVICE}" if self._revoke_token is not None and "resolve to a node" in note else note
            for note in super().request_reviewers(number, names)
        ]

    def list_comments(self, number: int, since: int) -> list[PullComment]:
        changed_since: QueryParams = {"since": format_since(since), "per_page": 100}
        lists: list[tuple[str, str, QueryParams]] = [
            ("issue_comment", f"{self._path}/issues/{number}/comments", changed_since),
            ("pull_request_review_comment", f"{self._path}/pulls/{number}/comments", changed_since),
            ("pull_request_review", f"{self._path}/pulls/{number}/reviews", {"per_page": 100}),
        ]
        return sort_comments(
            comment.to_comment(kind, since)
            for kind, path, query in lists
            for comment in self.http.paginate(ListedComment, path, query)
        )

    def _list_texts(self, path: str, since: int) -> Iterable[CommentText]:
        return self.http.paginate(CommentText, path, {"since": format_since(since), "per_page": 100})

    def can_write(self, user: str) -> bool:
        collaborator = self.http.get_or_none(
            Permission, f"{self._path}/collaborators/{quote(user, safe='')}/permission"
        )
        return collaborator is not None and collaborator.permission in ("admin", "write")

    def close(self) -> None:
        if self._revoke_token is not None:
            self._revoke_token()
        super().close()

    def _list_own_pulls(self, branch: str, base: str) -> Iterator[GitHubPull]:
        owner = self.repository.partition("/")[0]
        query: QueryParams = {"head": f"{owner}:{branch}", "state": "all", "per_page": 100}
        pulls = self.http.paginate(GitHubPull, f"{self._path}/pulls", query)
        return (pull for pull in pulls if self._is_own_branch(pull.head, branch))

    def _proposal_fields(self, proposal: Proposal) -> dict[str, Any]:
        return {
            "title": proposal.title,
            "head": proposal.branch,
            "base": proposal.base,
            "body": proposal.body,
            "draft": proposal.draft,
        }

    def _classify_refusal(self, refusal: ForgeRefused) -> ForgeRefused:
        message = str(refusal).lower()
        if refusal.status != 422:
            return refusal
        if "already exists" in message:
            return PullAlreadyOpen(str(refusal), status=422)
        if "no commits between" in message or "field: head" in message:
            return BranchNotVisibleYet(str(refusal), status=422)
        return refusal

    def _run_access_checks(self, branch: str) -> list[AccessCheck]:
        repository = self.http.request(GitHubRepository, "GET", self._path)
        scopes = self.http.get_header(self._path, "x-oauth-scopes")
        token_scopes = {scope.strip() for scope in (scopes or "").split(",")}
        # GitHub does not report an App's permissions here, but refuses to mint a token if they are missing.
        is_app = self._revoke_token is not None
        return [
            AccessCheck("is archived, so nothing can be pushed.", repository.archived),
            AccessCheck("is disabled.", repository.disabled),
            AccessCheck("is a fork. Use the repository that pull requests go to.", repository.fork),
            AccessCheck("has pull requests turned off.", not repository.has_pull_requests),
            AccessCheck(
                "cannot be pushed to with this token. It needs write access to contents and pull requests.",
                not is_app and repository.permissions is not None and not repository.permissions.get("push", False),
            ),
            AccessCheck(
                "cannot be pushed to with this token. It lacks the scope repo (or public_repo).",
                bool(scopes) and not {"repo", "public_repo"} & token_scopes,  # tokens without scopes do not tell
            ),
        ]

    def requires_review(self, branch: str) -> bool:
        """Returns whether a rule or a branch protection concerns the branch. Administrators could bypass both."""
        path = f"{self._path}/rules/branches/{quote(branch, safe='')}"
        with suppress(ForgeRefused):  # older Enterprise servers have no rulesets
            if any(rule.type in REVIEW_RULES for rule in self.http.paginate(GitHubRule, path, {"per_page": 100})):
                return True
        protected = self.http.paginate(GitHubBranch, f"{self._path}/branches", {"protected": "true", "per_page": 100})
        return any(each.name == branch for each in protected)

    def _check_rules(self, branch: str, planned: PlannedCommit) -> Iterator[AccessCheck]:
        """Yields the rules that forbid the commit; none on older Enterprise servers, which have no rulesets."""
        path = f"{self._path}/rules/branches/{quote(branch, safe='')}"
        with suppress(ForgeRefused):
            for rule in self.http.paginate(GitHubRule, path, {"per_page": 100}):
                problem = find_broken_github_rule(rule, branch, planned)
                if problem and not self._may_bypass(rule):
                    yield AccessCheck(problem, prevents_publishing=True)

    def _may_bypass(self, rule: GitHubRule) -> bool:
        ruleset = (
            self.http.get_or_none(Ruleset, f"{self._path}/rulesets/{rule.ruleset_id}") if rule.ruleset_id else None
        )
        return ruleset is not None and ruleset.current_user_can_bypass in ("always", "exempt")
