"""The interface of remote forges, and the types that it uses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from copydesk.core.clock import SECOND
from copydesk.jobs.job import PullState


@dataclass(frozen=True)
class Credentials:
    """A token, or the ID and key of a GitHub App that mints tokens. Secrets are left out of the repr."""

    token: str | None = field(default=None, repr=False)
    app_id: str | None = None
    app_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PullRequest:
    """A pull request on the forge.

    The title has no draft mark: forges that mark drafts in the title add the mark when they write it.
    """

    number: int
    url: str
    state: PullState
    title: str
    body: str
    draft: bool
    branch: str
    head: str | None
    """The newest commit of the branch that the forge has processed."""
    closed_at: int | None = None
    """When it was closed or merged, in milliseconds; None while it is open."""
    updated_at: int | None = None
    """When something about it last changed, in milliseconds. A comment changes it too."""
    author: str = ""
    """The account that opened it, which is the token's unless the token was replaced."""

    def closed_before(self, at: int) -> bool:
        """Returns whether it was certainly closed before this time. Forges round times to the second."""
        return self.closed_at is not None and self.closed_at + SECOND <= at


@dataclass(frozen=True)
class Proposal:
    """A pull request to open or update."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    labels: Sequence[str] = ()
    reviewers: Sequence[str] = ()
    head: str | None = None
    """The commit that was pushed. A pull request that was merged with this commit needs no update."""


@dataclass(frozen=True)
class PullComment:
    """A comment on a pull request, or on a line of it."""

    id: str
    """The kind and number of the comment, as in the id of a webhook's event."""
    user: str
    text: str
    created_at: int
    path: str | None = None
    line: int | None = None
    excerpt: str = ""
    first_line: int | None = None
    is_removed: bool = False


@dataclass(frozen=True)
class PlannedCommit:
    """What is known about a job's commits before the model starts. Rules of a repository may forbid such commits."""

    author_email: str = "copydesk@localhost"
    root: str = ""
    """The folder that holds the documentation; empty if it is the whole repository."""
    is_signed: bool = False
    is_signed_off: bool = False


class Forge(Protocol):
    """One repository on one forge. Every method may raise ForgeRefused or ForgeUnavailable."""

    @property
    def repository(self) -> str:
        """`owner/name` from the project's URL."""

    @property
    def ignores_pushes_while_closed(self) -> bool:
        """Whether a pull request lacks the commits that were pushed while it was closed, even after it is reopened."""

    def find_pulls(self, branch: str, base: str) -> list[PullRequest]:
        """Returns the pull requests from this branch, in any state, oldest first. Excludes those from forks."""

    def get_pull(self, number: int) -> PullRequest: ...

    def open_pull(self, proposal: Proposal) -> PullRequest:
        """Opens a pull request, without its labels and reviewers.

        Raises PullAlreadyOpen or BranchNotVisibleYet if that is why the forge refused.
        """

    def update_pull(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        """Updates the title or body. Leaves the draft state unchanged, because people decide when a draft is ready."""

    def list_comments(self, number: int, since: int) -> list[PullComment]:
        """Returns the comments of people since this time, in milliseconds, oldest first."""

    def has_comment(self, number: int, marker: str, since: int) -> bool:
        """Returns whether a comment since this time, in milliseconds, contains the marker, whoever wrote it."""

    def add_comment(self, number: int, text: str) -> None: ...

    def pull_contains(self, number: int, commit: str) -> bool:
        """Returns whether the pull request has this commit. Later pushes to the branch of a merged one do not count."""

    def close_pull(self, number: int) -> None: ...

    def reopen_pull(self, number: int) -> None: ...

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Adds existing labels, and returns a note for each label that does not exist. Never creates labels."""

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """Requests reviews, and returns a note for each person or team that could not be added."""

    def find_authors(self, commits: Sequence[str]) -> list[str]:
        """Returns the people on this forge who wrote these commits of the repository, which are the newest first."""

    def find_access_problems(self, branch: str, planned: PlannedCommit = ...) -> list[str]:
        """Returns the known reasons why such a branch could not be pushed or a pull request not be opened."""

    def requires_review(self, branch: str) -> bool:
        """Returns whether changes of this branch should go through a pull request, even if the token may bypass it."""

    def can_write(self, user: str) -> bool:
        """Returns whether this user can push to the repository; False for an unknown user."""

    def git_token(self) -> str | None:
        """Returns the token that git uses as a password. Renews a minted token that is about to expire."""

    def is_token_new(self) -> bool:
        """Returns whether the token was minted so recently that some servers may not know it yet."""

    def close(self) -> None:
        """Revokes a minted token and closes connections. The object cannot be used afterwards."""
