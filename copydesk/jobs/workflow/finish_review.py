"""Decides whether a model may finish: what the review of its work sends back, and what the pull request shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from copydesk.jobs.agent.conversation import Conversation
from copydesk.jobs.agent.evidence import describe_unverified
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.agent.tools.declarations import read_declarations
from copydesk.jobs.publish.guard.publish_guard import PublishRefused
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedWork
from copydesk.jobs.workflow.isolation.tasks import Overreach
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
    has_sent_back_evidence: bool = False

    def review(self, workspace: Workspace, finished: Finished, conversation: Conversation) -> str | None:
        """Returns what the model must fix before it may finish, or None."""
        try:
            self.check_publishable(workspace)
        except PublishRefused as refusal:
            return f"Not finished yet: this cannot be published. {refusal} Fix that, then call finish again."
        findings = self.reviewer.explain_findings(workspace, finished.intended_reasons)
        return (
            findings
            or self._send_back_evidence(workspace, finished)
            or self._advise_on_overreach(workspace, conversation)
        )

    def _send_back_evidence(self, workspace: Workspace, finished: Finished) -> str | None:
        """Returns the citations that do not hold, once per attempt."""
        if self.has_sent_back_evidence:
            return None
        problems = describe_unverified(self.isolated.verify_citations(workspace, finished.evidence))
        self.has_sent_back_evidence = problems is not None
        return problems

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
