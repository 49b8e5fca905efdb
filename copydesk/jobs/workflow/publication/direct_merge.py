"""Pushes a change to the base branch without a pull request, if nothing in it needs a person."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel

from copydesk.core.text.path_patterns import matches_any
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import Job, RepositoryFailed
from copydesk.jobs.publish.errors import ForgeRefused, RepositoryUnavailable
from copydesk.jobs.publish.forges.forge import Forge, PlannedCommit
from copydesk.jobs.publish.git.commit import CommitResult, Publisher
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.risk import Risk, needs_draft, point_to_risks
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.workflow.repository_retries import RepositoryRetries
from copydesk.jobs.workspace.git_tree import write_changed_tree
from copydesk.jobs.workspace.patches import FilePatch, diff_trees
from copydesk.jobs.workspace.workspace import Workspace

MERGE_STEP = "merge"


class MergeResult(BaseModel):
    """How the attempt to merge ended. `obstacle` says why the change becomes a pull request; None if it was merged."""

    obstacle: str | None


class ProposedMerge(NamedTuple):
    """A change that may be merged without a review."""

    files: Sequence[FilePatch]
    risks: Sequence[Risk]
    external_addresses: Sequence[str]
    is_follow_up: bool
    """Whether the job has a branch already, so that people may have seen it."""


def find_obstacle(job: Job, proposed: ProposedMerge) -> str | None:
    """Returns why a person should see the change, as a sentence; None if nothing speaks against merging it."""
    limits = job.merge_limits
    assert limits is not None
    outside = [patch.path for patch in proposed.files if not _is_within(patch, limits.paths)]
    lines = sum(patch.additions + patch.deletions for patch in proposed.files)
    reasons = [
        (proposed.is_follow_up, "The job has a branch already."),
        (job.draft, "The job asks for a draft."),
        (needs_draft(proposed.risks), "It has risks."),  # the job's message goes on with their names
        (bool(proposed.risks), point_to_risks(proposed.risks)),
        (bool(proposed.external_addresses), "It adds external addresses."),
        (bool(outside), f"It changes files outside of the automation's paths: {', '.join(outside[:3])}."),
        (lines > limits.max_lines, f"It changes {lines} lines, more than the limit of {limits.max_lines}."),
    ]
    return next((reason for applies, reason in reasons if applies), None)


def is_merged(results: Mapping[str, bytes]) -> bool:
    """Returns whether a run with these stored results pushed its change to the base branch."""
    return MERGE_STEP in results and MergeResult.model_validate_json(results[MERGE_STEP]).obstacle is None


def diff_workspace(workspace: Workspace) -> list[FilePatch]:
    """Returns what the workspace's edits change, file by file."""
    tree = workspace.tree
    return diff_trees(tree.repository, tree.root, write_changed_tree(tree, workspace.changes()))


def _is_within(patch: FilePatch, patterns: Sequence[str]) -> bool:
    paths = [path for path in (patch.path, patch.previous) if path]
    return not patterns or all(matches_any(path, patterns) for path in paths)


@dataclass(frozen=True)
class DirectMerge:
    journal: Journal
    job: Job
    forge: Forge | None
    mirror: Mirror
    planned: PlannedCommit
    check_still_active: Callable[[], None]
    retries: RepositoryRetries

    def merge(
        self, publisher: Publisher, committed: CommitResult, proposed: ProposedMerge, finished: Finished
    ) -> MergeResult:
        """Pushes the commit to the base branch, unless something speaks against it. The result is journaled."""
        with self.journal.step(MERGE_STEP, MergeResult) as step:
            if not step.is_done:
                obstacle = find_obstacle(self.job, proposed) or self._find_protection()
                if obstacle is None:
                    obstacle = self._push(publisher, committed)
                if obstacle is None:
                    pushed = NewEvent(EventKind.PUSHED, {"branch": self.job.ref, "commit": committed.commit})
                    values = {"pull_state": "merged", "title": finished.title, "summary": finished.summary}
                    step.save(MergeResult(obstacle=None), events=[pushed], job=values)
                else:
                    step.save(MergeResult(obstacle=obstacle))
        return step.result

    def _find_protection(self) -> str | None:
        """Returns why the base branch does not take pushes; None if it does, and for plain git."""
        if self.forge is None:
            return None
        try:
            problems = self.forge.find_access_problems(self.job.ref, self.planned)
            needs_review = self.forge.requires_review(self.job.ref)
        except ForgeRefused as refusal:
            return f"The protection of {self.job.ref} could not be read. {refusal}"
        if problems:
            return problems[0]
        return f"{self.job.ref} is protected." if needs_review else None

    def _push(self, publisher: Publisher, committed: CommitResult) -> str | None:
        """Pushes the commit. Returns why it was refused, or None. An earlier attempt may have pushed it already."""

        def push() -> None:
            publisher.recreate_if_missing(committed)
            self.check_still_active()
            head = self.mirror.fetch_head(self.job.ref)
            if not self.mirror.contains(head, committed.commit):
                self.mirror.push(committed.commit, self.job.ref, expected=committed.onto)

        try:
            self.retries.run(push)
        except RepositoryUnavailable:
            raise
        except RepositoryFailed as failure:
            return f"{self.job.ref} did not accept the push. {failure}"
        return None
