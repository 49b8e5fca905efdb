"""The base class of forges with a REST API. Each forge adds its endpoints, its fields and its rules."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol
from urllib.parse import quote

from pydantic import AliasChoices, BaseModel, Field

from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import PlannedCommit, Proposal, PullComment, PullRequest
from copydesk.jobs.publish.forges.markers import mark_comment, set_draft_mark
from copydesk.jobs.publish.forges.rest.api_client import ApiClient, QueryParams
from copydesk.jobs.publish.forges.rest.authors import ListedCommit, select_commits, select_people
from copydesk.jobs.publish.forges.rest.comments import CommentText


class PullModel(Protocol):
    """A pull request as the forge's API returns it."""

    def to_pull_request(self) -> PullRequest: ...


class RepositoryName(BaseModel):
    full_name: str


class PullHead(BaseModel):
    """The branch of a pull request, on GitHub and on Gitea."""

    ref: str
    sha: str = ""
    repo: RepositoryName | None = None
    """None when the fork was deleted."""

    @property
    def branch(self) -> str:
        return self.ref


class PullCommit(BaseModel):
    """A commit of a pull request. GitLab calls the hash `id`."""

    sha: str = Field(validation_alias=AliasChoices("sha", "id"))


class Permission(BaseModel):
    """A user's permission in the repository, on GitHub and on Gitea."""

    permission: str


class AccessCheck(NamedTuple):
    """One condition that would prevent publishing. `problem` continues a sentence that begins with the repository."""

    problem: str
    prevents_publishing: bool


class RestForge(ABC):
    """One repository on a forge. The interface `Forge` describes the public methods."""

    repository_noun: ClassVar[str] = "repository"
    pull_model: ClassVar[type[Any]]
    """The class of the API's pull requests, a PullModel."""
    pulls_path: ClassVar[str] = "/pulls"
    comments_path: ClassVar[str] = "/issues/{number}/comments"
    commits_path: ClassVar[str] = "/commits"
    commits_start_name: ClassVar[str] = "sha"
    """The parameter of a list of commits that names the commit to begin with."""
    update_method: ClassVar[str] = "PATCH"
    body_field: ClassVar[str] = "body"
    close_fields: ClassVar[Mapping[str, str]] = {"state": "closed"}
    reopen_fields: ClassVar[Mapping[str, str]] = {"state": "open"}
    draft_mark: ClassVar[str | None] = None
    """The mark of drafts in their titles; None if the API has a field for drafts."""
    draft_mark_pattern: ClassVar[str] = ""
    page_query: ClassVar[QueryParams] = {"per_page": 100}
    """The parameter that requests the largest page of a list."""
    ignores_pushes_while_closed: ClassVar[bool] = False

    def __init__(self, http: ApiClient, repository: str, get_token: Callable[[], str]) -> None:
        self.http = http
        self.repository = repository
        self._get_token = get_token
        self._path = self._repository_path()

    def find_pulls(self, branch: str, base: str) -> list[PullRequest]:
        own = [pull.to_pull_request() for pull in self._list_own_pulls(branch, base)]
        return sorted(own, key=lambda pull: pull.number)

    def get_pull(self, number: int) -> PullRequest:
        return self._request_pull("GET", f"/{number}")

    def open_pull(self, proposal: Proposal) -> PullRequest:
        try:
            return self._request_pull("POST", "", self._proposal_fields(proposal))
        except ForgeRefused as refusal:
            raise self._classify_refusal(refusal) from None

    def update_pull(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        fields: dict[str, str] = {}
        if title is not None:
            fields["title"] = self._mark_title(title, pull.draft)
        if body is not None:
            fields[self.body_field] = body
        self._change_pull(pull.number, fields)

    def pull_contains(self, number: int, commit: str) -> bool:
        """Returns whether the commit is in the forge's own list: the head of a merged one may be a later push."""
        commits = self.http.paginate(PullCommit, f"{self._pull_path(number)}/commits", self.page_query)
        return any(pull_commit.sha == commit for pull_commit in commits)

    @abstractmethod
    def list_comments(self, number: int, since: int) -> list[PullComment]: ...

    def has_comment(self, number: int, marker: str, since: int) -> bool:
        path = self._path + self.comments_path.format(number=number)
        return any(marker in (comment.body or "") for comment in self._list_texts(path, since))

    def _list_texts(self, path: str, _since: int) -> Iterable[CommentText]:
        """Returns the comments since this time; all of them on a forge that cannot filter them."""
        return self.http.paginate(CommentText, path, self.page_query)

    def add_comment(self, number: int, text: str) -> None:
        path = self._path + self.comments_path.format(number=number)
        self.http.request(object, "POST", path, body={"body": mark_comment(text)})

    def close_pull(self, number: int) -> None:
        self._change_pull(number, self.close_fields)

    def reopen_pull(self, number: int) -> None:
        self._change_pull(number, self.reopen_fields)

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Adds existing labels. Looks each one up first, because the forge would create unknown labels."""
        missing = [label for label in labels if not self._has_label(label)]
        if existing := [label for label in labels if label not in missing]:
            self._attach_labels(number, existing)
        return self._notes_on_missing_labels(missing)

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """Requests reviewers one by one, because one unknown name makes the forge refuse all. A team is `org/team`."""
        notes = []
        for name in names:
            try:
                problem = self._request_reviewer(number, name)
            except ForgeRefused as refusal:
                problem = str(refusal)
            if problem is not None:
                notes.append(f"{name} could not be added as a reviewer: {problem}")
        return notes

    def find_authors(self, commits: Sequence[str]) -> list[str]:
        return select_people([commit.login for commit in select_commits(commits, self._list_commits)])

    def find_access_problems(self, branch: str, planned: PlannedCommit = PlannedCommit()) -> list[str]:  # noqa: B008
        try:
            checks = [*self._run_access_checks(branch), *self._check_rules(branch, planned)]
        except ForgeRefused as refusal:
            if refusal.status != 404:
                return [str(refusal)]
            noun = self.repository_noun
            return [f"{self.http.host} has no {noun} {self.repository}, or the token has no access to it."]
        return [f"{self.repository} {check.problem}" for check in checks if check.prevents_publishing]

    def requires_review(self, branch: str) -> bool:
        """Returns False: these forges refuse a push to a protected branch by anyone, which the caller sees."""
        return False

    @abstractmethod
    def can_write(self, user: str) -> bool: ...

    def git_token(self) -> str | None:
        return self._get_token()

    def is_token_new(self) -> bool:
        return self.http.is_token_new()

    def close(self) -> None:
        self.http.close()

    @abstractmethod
    def _list_own_pulls(self, branch: str, base: str) -> Iterable[PullModel]:
        """Returns the pull requests from this branch of the repository itself, in any state and order."""

    @abstractmethod
    def _proposal_fields(self, proposal: Proposal) -> Mapping[str, Any]:
        """Returns the fields of the request that opens a pull request."""

    @abstractmethod
    def _classify_refusal(self, refusal: ForgeRefused) -> ForgeRefused:
        """Returns PullAlreadyOpen or BranchNotVisibleYet if that is why nothing was opened, else the refusal."""

    def _list_commits(self, start: str, count: int) -> list[ListedCommit]:
        """Returns about this many commits, beginning with this one, in one request."""
        [(size_name, max_size)] = self.page_query.items()
        query: QueryParams = {self.commits_start_name: start, size_name: min(count, int(max_size))}
        return self.http.request(list[ListedCommit], "GET", f"{self._path}{self.commits_path}", query=query)

    @abstractmethod
    def _run_access_checks(self, branch: str) -> Sequence[AccessCheck]:
        """Checks each condition that would prevent publishing to this branch. Returns all checks, also passed ones."""

    def _check_rules(self, branch: str, planned: PlannedCommit) -> Iterable[AccessCheck]:
        """Checks the repository's rules for branches and commits. Yields the broken ones; by default there are none."""
        return ()

    def _repository_path(self) -> str:
        return f"/repos/{quote(self.repository)}"

    def _pull_path(self, number: int) -> str:
        return f"{self._path}{self.pulls_path}/{number}"

    def _request_pull(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> PullRequest:
        """Sends a request below the path of pull requests, and returns the one in the response."""
        full_path = f"{self._path}{self.pulls_path}{path}"
        pull: PullModel = self.http.request(self.pull_model, method, full_path, body=fields)
        return pull.to_pull_request()

    def _change_pull(self, number: int, fields: Mapping[str, Any]) -> None:
        self._request_pull(self.update_method, f"/{number}", fields)

    def _request_reviewer(self, number: int, name: str) -> str | None:
        """Requests a review by a person or a team. Returns why the forge added no one, or None if it did."""
        team = name.partition("/")[2]
        body = {"team_reviewers": [team]} if team else {"reviewers": [name]}
        self.http.request(object, "POST", f"{self._pull_path(number)}/requested_reviewers", body=body)
        return None

    def _mark_title(self, title: str, draft: bool) -> str:
        if self.draft_mark is None:
            return title
        return set_draft_mark(title, self.draft_mark if draft else "", self.draft_mark_pattern)

    def _is_own_branch(self, head: PullHead, branch: str) -> bool:
        is_same_repository = head.repo is not None and head.repo.full_name.casefold() == self.repository.casefold()
        return is_same_repository and head.branch == branch

    def _attach_labels(self, number: int, labels: Sequence[str | int]) -> None:
        """Adds labels to a pull request: by name on GitHub, by number on Gitea."""
        self.http.request(object, "POST", f"{self._path}/issues/{number}/labels", body={"labels": labels})

    def _has_label(self, label: str) -> bool:
        return self.http.get_or_none(dict[str, Any], f"{self._path}/labels/{quote(label, safe='')}") is not None

    def _notes_on_missing_labels(self, labels: Sequence[str]) -> list[str]:
        return [f"The {self.repository_noun} has no label '{label}'." for label in labels]
