"""Turns a job's changes into a commit on its own branch, on the base as it is now."""

from dataclasses import dataclass

import pygit2
from pydantic import BaseModel

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Job, RepositoryFailed
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.workspace.workspace import Changes


class Committed(BaseModel):
    """`onto` is the commit it stands on; `note` says what became of a base that moved."""

    commit: str
    onto: str
    note: str | None = None


@dataclass(frozen=True)
class Publisher:
    """`start` is where the edits began: the base as it was pinned, or the head of the job's own branch."""

    job: Job
    policy: Policy
    mirror: Mirror
    start: str
    on_own_branch: bool
    changes: Changes
    message: str
    at: int

    def commit(self) -> Committed:
        """Re-applied when the base moved meanwhile; left on the old base, and said so, when that conflicts."""
        made, base = self._made() if self.changes else self.start, self.mirror.head(self.job.ref)
        conflict = f"The change conflicts with {self.job.ref} as it is now; resolve it when you merge."
        if self.on_own_branch:
            clean = self.mirror.contains(made, base) or self.mirror.merged(base, made, "", self._author()) is not None
            return Committed(commit=made, onto=self.start, note=None if clean else conflict)
        if base == self.start:
            return Committed(commit=made, onto=self.start)
        moved = self.mirror.reapplied(made, self.start, base)
        if moved is None:
            return Committed(commit=made, onto=self.start, note=conflict)
        note = f"{self.job.ref} moved while the job ran; the change was re-applied to its newest commit."
        return Committed(commit=moved, onto=base, note=note)

    def ensure(self, committed: Committed) -> None:
        """The same input makes the same commit, so a mirror that lost it makes it again."""
        if not self.mirror.has(committed.commit):
            self.mirror.ensure(committed.onto, self.job.ref)
            made = self._made()
            again = made if committed.onto == self.start else self.mirror.reapplied(made, self.start, committed.onto)
            if again != committed.commit:
                raise RepositoryFailed("The commit could not be made again as it was.")

    def _made(self) -> str:
        return self.mirror.commit(self.start, self.changes, self.message, self._author())

    def _author(self) -> pygit2.Signature:
        return pygit2.Signature(self.policy.author_name, self.policy.author_email, self.at // 1000)
