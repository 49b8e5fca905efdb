"""Finds where a run starts: on the job's branch with the newest base merged into it, and with unpublished edits."""

from collections.abc import Sequence
from dataclasses import dataclass

import pygit2

from copydesk.jobs.agent.starting_point import StartingPoint
from copydesk.jobs.agent.tool_round import Splice, ToolRound, build_splices
from copydesk.jobs.execution.journal import EarlierRun, Journal
from copydesk.jobs.job import Job, Reason, RepositoryFailed
from copydesk.jobs.publish.errors import RepositoryUnavailable
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.workflow.publication.direct_merge import is_merged
from copydesk.jobs.workspace.workspace import Changes, Workspace

SHOWN_HASH_CHARS = 12


@dataclass(frozen=True)
class StartFinder:
    """Finds the starting point of a run. Everything that it writes to the mirror is the same when it is repeated."""

    journal: Journal
    job: Job
    mirror: Mirror
    author_name: str
    author_email: str

    def find(self) -> StartingPoint:
        newest = self.mirror.fetch_head(self.job.ref)
        if self.journal.claim.run_number == 1:
            return StartingPoint(base=newest, head=None)
        head = self.mirror.find_head(self.job.branch)
        point = self._carry_edits(self._join(newest, head))
        return point.model_copy(update={"begins_anew": self.journal.is_started_by_automation()})

    def restore(self, point: StartingPoint) -> None:
        """Fetches or recreates the commits of a starting point, which another machine may have found.

        Raises RepositoryFailed if one is no longer in the repository.
        """
        if point.head is not None:
            self.mirror.ensure_commit(point.head, self.job.branch)  # its history may be all that still has the base
        self.mirror.ensure_commit(point.base, self.job.ref)
        if point.merged is not None and not self.mirror.has_commit(point.merged):
            assert point.head is not None
            if self._merge(point.head, point.base, point.merged_at) != point.merged:
                raise RepositoryFailed("The merge commit could not be recreated.")

    def _join(self, newest: str, head: str | None) -> StartingPoint:
        """Returns the branch with the newest base in it. The branch stays as it is if the two conflict."""
        if head is None:
            return StartingPoint(base=newest, head=None)
        notes = self._describe_reset(newest, head)
        if self.mirror.contains(head, newest):
            return StartingPoint(base=newest, head=head, notes=notes)
        merged_at = self.journal.claim.created_at
        merged = self._merge(head, newest, merged_at)
        if merged is not None:
            return StartingPoint(base=newest, head=head, merged=merged, merged_at=merged_at, notes=notes)
        base = self.mirror.find_common_ancestor(newest, head) or self.job.base or newest
        return StartingPoint(base=base, head=head, has_conflict=True, notes=notes)

    def _merge(self, head: str, base: str, at: int) -> str | None:
        message = f"Merge {self.job.ref} into {self.job.branch}\n\nCopydesk-Job: {self.job.id}\n"
        return self.mirror.merge(head, base, message, self._sign(at))

    def _describe_reset(self, newest: str, head: str) -> tuple[str, ...]:
        """Returns a note if the base branch was reset, and lost a commit that the job's branch still has."""
        base = self.job.base
        is_known = base is not None and self.mirror.has_commit(base) and self.mirror.contains(head, base)
        if base is None or not is_known or self.mirror.contains(newest, base):
            return ()
        ref = self.job.ref
        note = (
            f"{ref} was reset and no longer contains commit {base[:SHOWN_HASH_CHARS]}, but this branch still does. "
            f"Merging it brings that commit back to {ref}."
        )
        return (note,)

    def _carry_edits(self, point: StartingPoint) -> StartingPoint:
        """Returns the starting point with the edits of earlier runs that are on no branch.

        If they conflict with it, returns the one that they were made on, or drops them if the branch has moved on.
        """
        for run in reversed(self.journal.list_earlier_runs()):
            if (point.head is not None and "push" in run.results) or is_merged(run.results):
                return point
            if "pin" not in run.results or (run.reason is Reason.PUBLISH_REFUSED and "push" not in run.results):
                continue
            earlier = StartingPoint.model_validate_json(run.results["pin"])
            try:
                self.restore(earlier)
            except RepositoryUnavailable:
                raise
            except RepositoryFailed:
                continue  # its commits are gone with a branch; an older run may still be there
            return self._carry_edits_of(run, earlier, point)
        return point

    def _carry_edits_of(self, run: EarlierRun, earlier: StartingPoint, point: StartingPoint) -> StartingPoint:
        changes = self._replay(run, earlier)
        is_deleted = point.head is None and earlier.head is not None
        if not changes and not is_deleted:
            return point
        old_start = earlier.base if is_deleted else earlier.start
        edited = self.mirror.commit(earlier.start, changes, "", self._sign(0))
        carried = self.mirror.transplant(edited, old_start, point.start)
        if carried is not None:
            return point.model_copy(update={"carried": self._to_splices(point.start, carried)})
        if point.head is not None and point.head != earlier.head:
            note = "Edits of an earlier run that were not published conflict with newer commits, and were left out."
            return point.model_copy(update={"notes": (*point.notes, note)})
        kept = StartingPoint(base=earlier.base, head=None) if is_deleted else earlier
        unmoved = self.mirror.transplant(edited, old_start, kept.start)
        assert unmoved is not None
        splices = self._to_splices(kept.start, unmoved)
        return kept.model_copy(update={"carried": splices, "has_conflict": True, "notes": point.notes})

    def _replay(self, run: EarlierRun, point: StartingPoint) -> Changes:
        """Returns what the run had changed when it ended, compared with its start."""
        workspace = Workspace(self.mirror.tree(point.start))
        apply_splices(point.carried, workspace)
        for name, data in run.results.items():
            if name.endswith("-acts"):
                ToolRound.model_validate_json(data).replay(workspace)
        return workspace.changes()

    def _to_splices(self, start: str, changes: Changes) -> tuple[Splice, ...]:
        workspace = Workspace(self.mirror.tree(start))
        workspace.apply(changes)
        return build_splices({}, workspace)

    def _sign(self, at: int) -> pygit2.Signature:
        return pygit2.Signature(self.author_name, self.author_email, at // 1000)


def apply_splices(splices: Sequence[Splice], workspace: Workspace) -> None:
    """Applies the edits of earlier runs to a workspace without edits."""
    ToolRound(results=(), splices=tuple(splices), finished=None).replay(workspace)
