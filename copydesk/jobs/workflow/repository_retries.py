"""Repeats an action of a run while the repository is unavailable."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.publish.errors import RepositoryAccessDenied, RepositoryUnavailable
from copydesk.jobs.publish.forge_retry import retry_while_unavailable
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.storage.records import EventKind, NewEvent

T = TypeVar("T")


@dataclass(frozen=True)
class RepositoryRetries:
    journal: Journal
    attempt: Attempt
    forge: Forge | None
    get_mirror: Callable[[], Mirror]

    def run(self, action: Callable[[], T]) -> T:
        """Runs an action, with retries while the repository is unavailable.

        Does not retry for a repository without a forge that was never fetched before: it may not exist."""
        if self.forge is None and self.get_mirror().is_new:
            return action()
        return retry_while_unavailable(lambda: self._tolerate_new_token(action), self.pause, self.attempt.deadline)

    def pause(self, seconds: float, reason: str) -> None:
        pause_run(self.journal, self.attempt, seconds, reason)

    def _tolerate_new_token(self, action: Callable[[], T]) -> T:
        """Runs an action. Raises RepositoryUnavailable if the host of git does not know a new token yet."""
        try:
            return action()
        except RepositoryAccessDenied as denial:
            if self.forge is None or not self.forge.is_token_new():
                raise
            raise RepositoryUnavailable(str(denial)) from None


def pause_run(journal: Journal, attempt: Attempt, seconds: float, reason: str) -> None:
    """Records that the run waits, and waits. Raises AttemptStopped if the run must stop."""
    journal.record_event(NewEvent(EventKind.WAITING, {"seconds": round(seconds), "why": reason}))
    attempt.pause(seconds)
