"""The seam to remote forges: what a pull request is, and the calls that every forge must answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from copydesk.core.clock import SECOND

PullState = Literal["open", "merged", "closed"]


@dataclass(frozen=True)
class Credentials:
    """A token, or a GitHub App that mints its own. Neither is ever shown."""

    token: str | None = field(default=None, repr=False)
    app_id: str | None = None
    app_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PullRequest:
    """As the forge has it. The title is plain: a forge that marks drafts in it gets the mark back on writing."""

    number: int
    url: str
    state: PullState
    title: str
    body: str
    draft: bool
    branch: str
    head: str | None
    """The newest commit that the forge has seen on the branch."""
    closed_at: int | None = None
    """Milliseconds; merged ones too."""

    def closed_before(self, at: int) -> bool:
        """For certain: forges tell time by the second."""
        return self.closed_at is not None and self.closed_at + SECOND <= at


@dataclass(frozen=True)
class Proposal:
    """A pull request to be."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    labels: Sequence[str] = ()
    reviewers: Sequence[str] = ()
    head: str | None = None
    """The commit that was pushed: one that was merged with it needs nothing more."""


class Forge(Protocol):
    """One repository on one forge. Every call may raise ForgeRefused or ForgeAway."""

    @property
    def repository(self) -> str:
        """`owner/name`, as the project's address says it."""

    def find_pulls(self, branch: str, base: str) -> list[PullRequest]:
        """Pull requests from this branch of this very repository, in any state, oldest first; none from forks."""

    def get_pull(self, number: int) -> PullRequest: ...

    def open_pull(self, proposal: Proposal) -> PullRequest:
        """AlreadyOpen or NotYet where these are the reason. Labels and reviewers come after, each by its own call."""

    def update_pull(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        """A draft stays a draft, and what is ready stays ready: that is for people to say."""

    def add_comment(self, number: int, text: str) -> None: ...

    def close_pull(self, number: int) -> None: ...

    def reopen_pull(self, number: int) -> None: ...

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Notes about labels that the repository does not have; none is ever created."""

    def request_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """Notes about people who cannot be asked."""

    def find_access_problems(self, branch: str) -> list[str]:
        """What stands in the way of pushing such a branch and opening a pull request, as far as the forge tells."""

    def can_write(self, user: str) -> bool:
        """Whether this person may push to the repository; False for whoever is unknown."""

    def git_token(self) -> str | None:
        """For git, which takes it as a password; renewed when it is about to expire."""

    def close(self) -> None:
        """Closes connections and gives back a token that was minted. Nothing is asked of the forge after that."""
