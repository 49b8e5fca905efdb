"""Creates the commit of a job's changes, rebased onto the current base branch."""

from collections.abc import Sequence
from dataclasses import dataclass

import pygit2
from pydantic import BaseModel

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Job, RepositoryFailed
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.workspace.workspace import Changes


class CommitResult(BaseModel):
    """A commit and its parent `onto`. `note` says what happened if the base branch moved or conflicts."""

    commit: str
    onto: str
    note: str | None = None


@dataclass(frozen=True)
class Publisher:
    """Creates one job's commit.

    `start_commit` is the commit that was edited: the pinned base, or the head of the job's own branch.
    """

    job: Job
    policy: Policy
    mirror: Mirror
    start_commit: str
    on_own_branch: bool
    changes: Changes
    message: str
    authored_at: int
    notes: Sequence[str] = ()
    """Sentences on the start of the run, for people."""

    def commit(self) -> CommitResult:
        """Creates the commit, and rebases it if the base branch moved.

        On a conflict the commit stays on the old base, and the note says so.
        """
        result = self._commit_on_newest_base()
        return result.model_copy(update={"note": " ".join(filter(None, [result.note, *self.notes])) or None})

    def _commit_on_newest_base(self) -> CommitResult:
        commit = self._create_commit() if self.changes else self.start_commit
        base = self.mirror.fetch_head(self.job.ref)
        conflict = describe_conflict(self.job.ref)
        if self.on_own_branch:
            merges_cleanly = (
                self.mirror.contains(commit, base) or self.mirror.merge(base, commit, "", self._author()) is not None
            )
            return CommitResult(commit=commit, onto=self.start_commit, note=None if merges_cleanly else conflict)
        if base == self.start_commit:
            return CommitResult(commit=commit, onto=self.start_commit)
        rebased = self.mirror.rebase(commit, self.start_commit, base)
        if rebased is None:
            return CommitResult(commit=commit, onto=self.start_commit, note=conflict)
        note = f"{self.job.ref} changed while the job ran, so the change was rebased onto its newest commit."
        return CommitResult(commit=rebased, onto=base, note=note)

    def recreate_if_missing(self, result: CommitResult) -> None:
        """Recreates a commit that the mirror has lost. The same input always creates the same commit."""
        if not self.mirror.has_commit(result.commit):
            self.mirror.ensure_commit(result.onto, self.job.ref)
            commit = self._create_commit()
            recreated = (
                commit
                if result.onto == self.start_commit
                else self.mirror.rebase(commit, self.start_commit, result.onto)
            )
            if recreated != result.commit:
                raise RepositoryFailed("The commit could not be recreated.")

    def _create_commit(self) -> str:
        return self.mirror.commit(self.start_commit, self.changes, self.message, self._author())

    def _author(self) -> pygit2.Signature:
        return pygit2.Signature(self.policy.author_name, self.policy.author_email, self.authored_at // 1000)


def describe_conflict(ref: str) -> str:
    return f"The change conflicts with {ref}. Resolve the conflict when you merge."
