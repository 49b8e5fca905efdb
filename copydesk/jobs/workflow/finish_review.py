"""Decides whether a model may finish: what the review of its work sends back, and what the pull request shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from copydesk.jobs.agent.conversation import Conversation
from copydesk.jobs.agent.evidence import ASK_FOR_EVIDENCE, describe_missing_evidence, describe_unverified
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.agent.tools.declarations import read_declarations
from copydesk.jobs.publish.guard.publish_guard import PublishRefused
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedWork
from copydesk.jobs.workflow.isolation.tasks import Overreach
from copydesk.jobs.workflow.publication.direct_merge import diff_workspace
from copydesk.jobs.workflow.review import Reviewer
from copydesk.jobs.workspace.workspace import Workspace

MAX_OVERREACH_LISTED = 10


@dataclass
class FinishReview:
    """Reviews the work of one attempt each time the model says that it is finished.

    `check_publishable` raises PublishRefused. Advice on overreach is given only once per attempt, so that the model can
    finish if the request asks for a rewrite."""

    reviewer: Reviewer
    isolated: IsolatedWork
    check_publishable: Callable[[Workspace], None]
    may_advise: bool = True
    """False for the mechanic, which reformats and rewrites only on request."""
    advised_paths: set[str] = field(default_factory=set)

    def review(self, workspace: Workspace, finished: Finished, conversation: Conversation) -> str | None:
        """Returns what the model must fix before it may finish, all at once, or None."""
        problems = [
            self._find_refusal(workspace),
            self.reviewer.explain_findings(workspace, finished.intended_reasons),
            self._judge_evidence(workspace, finished),
        ]
        return "\n\n".join(filter(None, problems)) or self._advise_on_overreach(workspace, conversation)

    def _find_refusal(self, workspace: Workspace) -> str | None:
        try:
            self.check_publishable(workspace)
        except PublishRefused as refusal:
            return f"Not finished yet: this cannot be published. {refusal} Fix that, then call finish again."
        return None

    def _judge_evidence(self, workspace: Workspace, finished: Finished) -> str | None:
        """Returns the citations that do not hold, or that there are none. The mechanic cites nothing."""
        evidence = self.isolated.verify_citations(workspace, finished.evidence)
        could_cite = bool(workspace.contexts) and self.may_advise
        if could_cite and describe_missing_evidence(diff_workspace(workspace), could_cite, evidence):
            return ASK_FOR_EVIDENCE
        return describe_unverified(evidence)

    def _advise_on_overreach(self, workspace: Workspace, conversation: Conversation) -> str | None:
        """Returns advice if the change as a whole reformats or rewrites pages, although each of its edits was small."""
        files = self.find_overreach(workspace, conversation) if self.may_advise else []
        new_files = [each for each in files if each.advice and each.path not in self.advised_paths]
        if not new_files:
            return None
        self.advised_paths.update(each.path for each in new_files)
        lines = [f"{each.path}: {each.advice}" for each in new_files[:MAX_OVERREACH_LISTED]]
        omitted = len(new_files) - len(lines)
        lines += [f"… and {omitted} more files."] if omitted else []
        return "\n".join([*lines, "If this is what was asked for, call finish again."])

    def find_overreach(self, workspace: Workspace, conversation: Conversation) -> list[Overreach]:
        return self.isolated.find_overreach(workspace, read_declarations(conversation))


def describe_reformatting(files: Sequence[Overreach]) -> list[str]:
    """Returns a line for each reformatted file, with the model's reason, for the pull request."""
    return [
        f"{each.path}, {each.reformatted_lines} lines: {each.reason or 'the model gave no reason'}"
        for each in files
        if each.reformatted_lines
    ]
