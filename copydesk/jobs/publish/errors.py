"""What can go wrong between Copydesk and a forge or a repository."""

from copydesk.jobs.job import JobFailed, Reason, RepositoryFailed


class RepositoryUnavailable(RepositoryFailed):
    """The repository did not answer; it may in a while."""

    retry_after: float | None = None


class ForgeRefused(JobFailed):
    """The forge said no, and will again; its words, without secrets."""

    reason = Reason.PUBLISH_REFUSED

    def __init__(self, message: str, reason: Reason | None = None, *, status: int | None = None) -> None:
        super().__init__(message, reason)
        self.status = status


class PullAlreadyOpen(ForgeRefused):
    """The forge has an open pull request of this branch."""


class BranchNotVisibleYet(ForgeRefused):
    """The forge has not noticed the pushed branch so far; it mostly does within seconds."""


class ForgeUnavailable(RepositoryUnavailable):
    message = "No clear answer: the forge is down, slow or wants fewer requests. What was asked may have been done."

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds, where the forge named them
