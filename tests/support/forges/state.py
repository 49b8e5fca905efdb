"""The state of a forge, common to all of them; pull requests refer to real branches of real repositories."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pygit2

from tests.support.repositories import list_branches

ACCESS_LEVELS = ("none", "read", "triage", "write", "maintain", "admin")


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(eq=False)
class User:
    id: int
    login: str
    access: str = "write"
    """Access to every repository of the forge: one of LEVELS."""
    kind: str = "User"

    def may(self, level: str) -> bool:
        return ACCESS_LEVELS.index(self.access) >= ACCESS_LEVELS.index(level)


@dataclass(eq=False)
class Token:
    value: str = field(repr=False)
    user: User
    scopes: frozenset[str]
    expires: float = float("inf")
    revoked: bool = False
    repositories: frozenset[str] | None = None
    """Full names, or None for all that the user can access."""

    unknown_calls: int = 0
    """The number of calls that will still be refused, because not every server knows the token yet."""

    def is_unknown(self) -> bool:
        """Counts a call, and returns whether the server that gets it does not know the token yet."""
        self.unknown_calls -= 1
        return self.unknown_calls >= 0

    @property
    def alive(self) -> bool:
        return not self.revoked and time.time() < self.expires

    def reaches(self, repository: "Repository") -> bool:
        return self.user.may("read") and (self.repositories is None or repository.path in self.repositories)


@dataclass(eq=False)
class Comment:
    id: int
    author: User
    body: str
    created: datetime = field(default_factory=now)
    file: str | None = None
    line: int | None = None
    submitted: datetime | None = None
    """When the review that it belongs to was submitted, if it was pending before."""

    @property
    def updated(self) -> datetime:
        return self.submitted or self.created


@dataclass
class Lag:
    """A branch as the API still sees it, for a number of calls or until a time."""

    seen_commit: str | None
    calls: int
    until: float

    @property
    def over(self) -> bool:
        return self.calls <= 0 and time.monotonic() >= self.until


@dataclass(eq=False)
class Repository:
    id: int
    path: str
    folder: Path
    private: bool = True
    archived: bool = False
    fork: bool = False
    has_drafts: bool = True
    """Whether the plan of its owner includes drafts."""
    teams: tuple[str, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    pulls: "list[Pull]" = field(default_factory=list)
    lagging: dict[str, Lag] = field(default_factory=dict)
    created: datetime = field(default_factory=now)

    @property
    def owner(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def default_branch(self) -> str:
        target = pygit2.Repository(str(self.folder)).lookup_reference("HEAD").raw_target
        assert isinstance(target, bytes)
        return target.decode().removeprefix("refs/heads/")

    def heads(self) -> dict[str, str]:
        """Returns branch → commit, as the API sees them now."""
        branch_heads = list_branches(self.folder)
        for branch, lag in self.lagging.items():
            if lag.over:
                continue
            branch_heads.pop(branch, None)
            if lag.seen_commit is not None:
                branch_heads[branch] = lag.seen_commit
        return branch_heads

    def tick(self) -> None:
        """Counts a call against the lags."""
        for lag in self.lagging.values():
            lag.calls -= 1
        self.lagging = {branch: lag for branch, lag in self.lagging.items() if not lag.over}

    def label(self, name: str) -> int:
        return self.labels.setdefault(name, 100 * self.id + len(self.labels) + 1)

    def find(self, number: int) -> "Pull | None":
        return next((pull for pull in self.pulls if pull.number == number), None)

    def open_pull(self, head: str, base: str | None = None) -> "Pull | None":
        matching = (pull for pull in self.pulls if pull.state == "open" and pull.head == head)
        return next((pull for pull in matching if base in (None, pull.base)), None)


@dataclass(eq=False)
class Pull:
    id: int
    number: int
    repository: Repository = field(repr=False)
    author: User
    head: str
    base: str
    title: str
    body: str
    sha: str
    base_sha: str
    draft: bool = False
    state: str = "open"
    merged_by: User | None = None
    merge_sha: str | None = None
    labels: list[str] = field(default_factory=list)
    reviewers: list[User] = field(default_factory=list)
    team_reviewers: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    created: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)
    closed: datetime | None = None
    unlisted: int = 0
    """The number of lists that will still leave it out."""
    is_outdated: bool = False
    """Whether it keeps its commits until the next push, because it was reopened by the API of a forge that does so."""

    @property
    def merged(self) -> bool:
        return self.merge_sha is not None

    def update_heads(self) -> None:
        """Updates an open pull request to the heads of its branches."""
        if self.state == "open" and not self.merged and not self.is_outdated:
            heads = self.repository.heads()
            self.sha = heads.get(self.head, self.sha)
            self.base_sha = heads.get(self.base, self.base_sha)

    def size(self) -> tuple[int, int, int, int]:
        """Returns commits, additions, deletions and changed files."""
        repository = pygit2.Repository(str(self.repository.folder))
        fork = repository.merge_base(pygit2.Oid(hex=self.base_sha), pygit2.Oid(hex=self.sha))
        stats = repository.diff(str(fork), self.sha).stats
        commits = repository.ahead_behind(pygit2.Oid(hex=self.sha), fork)[0]
        return commits, stats.insertions, stats.deletions, stats.files_changed


def merge_branches(folder: Path, head: str, base: str, message: str) -> str:
    """Writes a real merge commit to the base branch of the bare repository."""
    repository = pygit2.Repository(str(folder))
    ours = repository.lookup_reference(f"refs/heads/{base}").target
    theirs = repository.lookup_reference(f"refs/heads/{head}").target
    assert isinstance(ours, pygit2.Oid)
    assert isinstance(theirs, pygit2.Oid)
    index = repository.merge_commits(ours, theirs)
    assert not index.conflicts, f"{head} and {base} are in conflict."
    who = pygit2.Signature("Forge", "forge@example.org")
    tree = index.write_tree(repository)
    return str(repository.create_commit(f"refs/heads/{base}", who, who, message, tree, [ours, theirs]))


def count_commits_ahead(folder: Path, head: str, base: str) -> int:
    """Counts the commits of the head that the base lacks; both are commit ids."""
    counts = pygit2.Repository(str(folder)).ahead_behind(pygit2.Oid(hex=head), pygit2.Oid(hex=base))
    return counts[0]


def list_pull_commits(pull: Pull) -> list[pygit2.Commit]:
    """Lists the pull request's own commits, newest first."""
    repository = pygit2.Repository(str(pull.repository.folder))
    start = repository.merge_base(pygit2.Oid(hex=pull.base_sha), pygit2.Oid(hex=pull.sha))
    walker = repository.walk(pull.sha)
    walker.hide(start)
    return list(walker)
