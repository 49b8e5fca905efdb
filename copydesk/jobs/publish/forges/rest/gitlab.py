"""GitLab (gitlab.com or self-managed), through its REST API. GitLab calls a pull request a merge request."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.job import PullState
from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forges.forge import PlannedCommit, Proposal, PullComment, PullRequest
from copydesk.jobs.publish.forges.markers import GITLAB_BOT_PATTERN, strip_draft_marks
from copydesk.jobs.publish.forges.rest.api_client import QueryParams
from copydesk.jobs.publish.forges.rest.authors import select_commits, select_people
from copydesk.jobs.publish.forges.rest.comments import sort_comments, to_milliseconds, to_milliseconds_or_none
from copydesk.jobs.publish.forges.rest.push_rules import GitLabPushRules, find_broken_gitlab_rules
from copydesk.jobs.publish.forges.rest.rest_forge import AccessCheck, RestForge

DRAFT_MARK = "Draft: "
DRAFT_MARK_PATTERN = r"(?:\[draft\]|\(draft\)|draft:|draft - )"
DEVELOPER_LEVEL, OWNER_LEVEL = 30, 50
NO_SUCH_USER = "there is no such user."
REVIEWER_DROPPED = "GitLab added no such reviewer. The free tier allows one, who must be able to read the project."
MAX_AUTHOR_LOOKUPS = 20
USABLE_SCOPES = {"api", "granular"}
"""`granular` is the only scope of a fine-grained token, whose permissions GitLab checks with each request."""
MISSING_SOURCE_PATTERN = re.compile(r"source[_ ]branch\W.*does not exist", re.IGNORECASE | re.DOTALL)


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


class GitLabUser(BaseModel):
    id: int
    username: str


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
    updated_at: datetime | None = None
    author: GitLabUser | None = None

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
            closed_at=to_milliseconds_or_none(ended_at),
            updated_at=to_milliseconds_or_none(self.updated_at),
            author=self.author.username if self.author else "",
        )


class NotePosition(BaseModel):
    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class GitLabNote(BaseModel):
    id: int
    body: str | None = None
    author: GitLabUser | None = None
    created_at: datetime
    system: bool = False
    position: NotePosition | None = None

    @property
    def is_by_machine(self) -> bool:
        return self.system or self.author is None or GITLAB_BOT_PATTERN.match(self.author.username) is not None

    def to_comment(self) -> PullComment | None:
        if self.author is None or not self.body:
            return None
        position = self.position or NotePosition()
        return PullComment(
            id=f"note-{self.id}",
            user=self.author.username,
            text=self.body,
            created_at=to_milliseconds(self.created_at),
            path=position.new_path or position.old_path,
            line=position.new_line or position.old_line,
            is_removed=position.new_line is None and position.old_line is not None,
        )


class ReviewerList(BaseModel):
    reviewers: list[GitLabUser] = []


class TokenInfo(BaseModel):
    scopes: list[str] = []


class PushAccess(BaseModel):
    access_level: int | None = None
    """None when the rule allows a specific user or group instead of a role."""


class ProtectedBranchRule(BaseModel):
    name: str
    push_access_levels: list[PushAccess] = []


class GitLab(RestForge):
    repository_noun = "project"
    pull_model = GitLabMergeRequest
    pulls_path = "/merge_requests"
    comments_path = "/merge_requests/{number}/notes"
    commits_path = "/repository/commits"
    commits_start_name = "ref_name"
    update_method = "PUT"
    body_field = "description"
    close_fields: ClassVar = {"state_event": "close"}
    reopen_fields: ClassVar = {"state_event": "reopen"}
    draft_mark = DRAFT_MARK
    draft_mark_pattern = DRAFT_MARK_PATTERN

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """Requests reviewers, and reads from the response who was added: GitLab drops others without an error.

        The request replaces the list of reviewers, so those that are there come first.
        """
        user_ids = {name: self._find_user_id(name) for name in names}
        added: list[int] = []
        if ids := [user for user in user_ids.values() if user is not None]:
            body = {"reviewer_ids": list(dict.fromkeys([*self._list_reviewer_ids(number), *ids]))}
            response = self.http.request(ReviewerList, self.update_method, self._pull_path(number), body=body)
            added = [user.id for user in response.reviewers]
        return [
            f"{name} could not be added as a reviewer: {NO_SUCH_USER if user_ids[name] is None else REVIEWER_DROPPED}"
            for name in names
            if user_ids[name] not in added
        ]

    def find_authors(self, commits: Sequence[str]) -> list[str]:
        """Returns the people with the addresses of the commits, or else those who opened their merge requests.

        Only administrators can look up addresses that people do not publish.
        """
        names: dict[str, str] = {}
        for commit in select_commits(commits, self._list_commits):
            if commit.author_email not in names and len(names) < MAX_AUTHOR_LOOKUPS:
                address = commit.author_email
                names[address] = self._find_user_by_address(address) or self._find_merge_request_author(commit.sha)
        return select_people(list(names.values()))

    def _list_reviewer_ids(self, number: int) -> list[int]:
        return [user.id for user in self.http.request(ReviewerList, "GET", self._pull_path(number)).reviewers]

    def _find_user_by_address(self, address: str) -> str:
        """Returns the only user that a search for the address finds. It may also find names that contain the text."""
        query: QueryParams = {"search": address, "humans": "true", "per_page": 2}
        users = self.http.request(list[GitLabUser], "GET", "/users", query=query) if "@" in address else []
        return users[0].username if len(users) == 1 else ""

    def _find_merge_request_author(self, commit: str) -> str:
        path = f"{self._path}{self.commits_path}/{commit}/merge_requests"
        requests = self.http.request(list[GitLabMergeRequest], "GET", path, query={"per_page": 20})
        authors = [request.author for request in requests if request.state == "merged"]
        return next((author.username for author in authors if author is not None), "")

    def list_comments(self, number: int, since: int) -> list[PullComment]:
        """Returns the comments. Reads the newest first, because GitLab cannot filter them by time."""
        path = f"{self._path}/merge_requests/{number}/notes"
        query: QueryParams = {"order_by": "created_at", "sort": "desc", "per_page": 100}
        notes = takewhile(
            lambda note: to_milliseconds(note.created_at) >= since, self.http.paginate(GitLabNote, path, query)
        )
        return sort_comments(note.to_comment() for note in notes if not note.is_by_machine)

    def can_write(self, user: str) -> bool:
        user_id = self._find_user_id(user)
        member = (
            self.http.get_or_none(MemberAccess, f"{self._path}/members/all/{user_id}") if user_id is not None else None
        )
        return member is not None and member.access_level >= DEVELOPER_LEVEL

    def _repository_path(self) -> str:
        return f"/projects/{quote(self.repository, safe='')}"

    def _list_own_pulls(self, branch: str, base: str) -> Iterator[GitLabMergeRequest]:
        query: QueryParams = {"source_branch": branch, "state": "all", "scope": "all", "per_page": 100}
        merge_requests = self.http.paginate(GitLabMergeRequest, f"{self._path}/merge_requests", query)
        return (p for p in merge_requests if p.source_branch == branch and p.source_project_id == p.target_project_id)

    def _proposal_fields(self, proposal: Proposal) -> dict[str, Any]:
        return {
            "source_branch": proposal.branch,
            "target_branch": proposal.base,
            "title": self._mark_title(proposal.title, proposal.draft),
            "description": proposal.body,
        }

    def _classify_refusal(self, refusal: ForgeRefused) -> ForgeRefused:
        message = str(refusal).lower()
        if refusal.status == 409 or "already exists" in message:
            return PullAlreadyOpen(str(refusal), status=refusal.status)
        if refusal.status in (400, 404, 422) and MISSING_SOURCE_PATTERN.search(message):
            return BranchNotVisibleYet(str(refusal), status=refusal.status)
        return refusal

    def _attach_labels(self, number: int, labels: Sequence[str | int]) -> None:
        self._change_pull(number, {"add_labels": list(labels)})

    def _run_access_checks(self, branch: str) -> list[AccessCheck]:
        project = self.http.request(GitLabProject, "GET", self._path)
        permissions = project.permissions or ProjectPermissions()
        access_levels = [
            access.access_level for access in (permissions.project_access, permissions.group_access) if access
        ]
        level = max(access_levels, default=OWNER_LEVEL)  # GitLab does not report access through an invited group
        return [
            AccessCheck("is archived, so nothing can be pushed.", project.archived),
            AccessCheck(
                "is a fork. Use the project that merge requests go to.", project.forked_from_project is not None
            ),
            AccessCheck("has merge requests turned off.", project.merge_requests_access_level == "disabled"),
            AccessCheck("cannot be pushed to with this token. It needs the role Developer.", level < DEVELOPER_LEVEL),
            AccessCheck("cannot be written to with this token. It lacks the scope api.", self._lacks_scope()),
            AccessCheck(
                f"does not allow this token's role to push to branches such as {branch}.",
                self._is_protected(branch, level),
            ),
        ]

    def _check_rules(self, branch: str, planned: PlannedCommit) -> Iterator[AccessCheck]:
        """Yields the push rules that forbid the commit; none on the free tier, or if the role cannot read them."""
        with suppress(ForgeRefused):
            rules = self.http.request(GitLabPushRules | None, "GET", f"{self._path}/push_rule")  # type: ignore[arg-type]
            for problem in find_broken_gitlab_rules(rules, branch, planned) if rules else ():
                yield AccessCheck(problem, prevents_publishing=True)

    def _find_user_id(self, name: str) -> int | None:
        users = self.http.request(list[GitLabUser], "GET", "/users", query={"username": name})
        return next((user.id for user in users if user.username.casefold() == name.casefold()), None)

    def _lacks_scope(self) -> bool:
        """Returns whether the token lacks the scope `api`; False for tokens that do not tell their scopes."""
        with suppress(ForgeRefused):
            scopes = self.http.request(TokenInfo, "GET", "/personal_access_tokens/self").scopes
            return bool(scopes) and not USABLE_SCOPES & set(scopes)
        return False

    def _is_protected(self, branch: str, level: int) -> bool:
        with suppress(ForgeRefused):
            for rule in self.http.paginate(ProtectedBranchRule, f"{self._path}/protected_branches", {"per_page": 100}):
                push_levels = [access.access_level for access in rule.push_access_levels]
                allowed = any(one is None or 0 < one <= level for one in push_levels)
                if fnmatchcase(branch, rule.name) and not allowed:
                    return True
        return False
