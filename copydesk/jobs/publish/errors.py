"""Errors of forges and of remote repositories."""

from copydesk.jobs.job import JobFailed, Reason, RepositoryFailed


class RepositoryUnavailable(RepositoryFailed):
    """The repository did not respond. A retry may succeed."""

    retry_after: float | None = None
    """Seconds that the other side asked to wait; None when it named no time."""


class RepositoryAccessDenied(RepositoryFailed):
    """The repository's host refused the token, or requires one."""


class RepositoryRedirected(RepositoryFailed):
    """The repository's host redirects git to another address, which git does not follow."""


class ForgeRefused(JobFailed):
    """The forge refused a request permanently. The message is the forge's own, with secrets redacted."""

    reason = Reason.PUBLISH_REFUSED

    def __init__(self, message: str, reason: Reason | None = None, *, status: int | None = None) -> None:
        super().__init__(message, reason)
        self.status = status


class PullAlreadyOpen(ForgeRefused):
    """The branch already has an open pull request."""


class BranchNotVisibleYet(ForgeRefused):
    """The forge has not processed the push of the branch yet. It usually does so within seconds."""


class ForgeUnavailable(RepositoryUnavailable):
    """The forge gave no clear response, so the requested change may or may not have been made."""

    message = "The forge is down, slow or limiting requests. The last request may have succeeded."

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
