"""Reviews a job's changes with the checks and the project's check command, relative to the commit it started from."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from copydesk.core.projects.projects import Project
from copydesk.jobs.checks import CheckReport, format_for_api, format_for_model
from copydesk.jobs.checks.check_command import CommandResult, run_command
from copydesk.jobs.execution.stoppable import Stoppable
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Changes, Workspace

COMMAND_CHECK = "command"
MAX_OUTPUT_CHARS = 4000


class ReviewResult(BaseModel):
    """The outcome of a review. `checks` has one entry for each check that ran, as the API shows it."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    checks: list[dict[str, Any]]
    findings: list[str] = Field(default=[], validation_alias="faults", serialization_alias="faults")
    """Findings that the change introduces, one line each. The journal names them `faults`."""
    can_mend: bool = True
    """False if a model cannot fix the findings: only the check command failed, and it could not be run."""

    @property
    def summary_lines(self) -> list[str]:
        """Returns the lines about checks in the pull request."""
        command_failed_before = any(entry["name"] == COMMAND_CHECK and entry["old"] for entry in self.checks)
        passed = [entry["name"] for entry in self.checks if entry["status"] == "passed"]
        passed = [name for name in passed if not (command_failed_before and name == COMMAND_CHECK)]
        old_count = sum(entry["old"] for entry in self.checks if entry["name"] != COMMAND_CHECK)
        lines = [f"passed: {', '.join(passed)}"] if passed else []
        lines += [f"**failed: {entry['name']}**" for entry in self.checks if entry["status"] == "failed"]
        lines += [f"not judged: {entry['name']} ({entry['reason']})" for entry in self.checks if entry.get("reason")]
        lines += ["the check command fails, as it did before the change"] if command_failed_before else []
        if old_count:
            lines.append(f"{old_count} existing problem{'' if old_count == 1 else 's'} not touched by this change")
        return lines

    @property
    def unjudged_rules(self) -> list[str]:
        """Returns the rules that could not judge a part of the change."""
        return [entry["name"] for entry in self.checks if entry.get("reason")]


CheckWorkspace = Callable[[Workspace, Tree, Sequence[str], Sequence[str]], CheckReport]
"""Checks a workspace against the tree it started from, given required front-matter fields and ignored checks."""


class _Review(NamedTuple):
    result: ReviewResult
    text: str
    """The result as text for the model."""


class _CommandReview(NamedTuple):
    entry: dict[str, Any]
    """The entry of the check command, as the API shows it."""
    text: str
    could_run: bool


class Reviewer:
    """Reviews a workspace. Caches the last result: finish, the `check` tool and publishing review the same changes."""

    def __init__(
        self,
        project: Project,
        origin: Tree,
        check: CheckWorkspace,
        sandbox: Callable[[], Sandbox | SandboxUnavailable],
        stoppable: Stoppable,
        tools: Sequence[str] = (),
    ) -> None:
        self.project = project
        self.origin = origin
        self.stoppable = stoppable
        self.tools = tools
        self._check = check
        self._sandbox = sandbox
        self._last_changes: Changes | None = None
        self._last_review: _Review | None = None

    def review(self, workspace: Workspace) -> ReviewResult:
        return self._review_if_changed(workspace).result

    def describe_for_model(self, workspace: Workspace) -> str:
        """Returns the result of the review as text for the model."""
        return self._review_if_changed(workspace).text

    def explain_findings(self, workspace: Workspace) -> str | None:
        """Returns why the model may not finish yet, or None if it may."""
        if not workspace.changes():
            return None
        result, text = self._review_if_changed(workspace)
        if not result.findings or not result.can_mend:
            return None
        return f"Not finished yet: your changes introduce these problems. Fix them, then call finish again.\n{text}"

    def _review_if_changed(self, workspace: Workspace) -> _Review:
        changes = workspace.changes()
        if self._last_review is None or self._last_changes != changes:
            self._last_review = self._run_review(workspace)
            self._last_changes = changes
        return self._last_review

    def _run_review(self, workspace: Workspace) -> _Review:
        policy = self.project.policy
        report = self._check(workspace, self.origin, policy.required_fields, policy.ignored_checks)
        checks = format_for_api(report, policy.ignored_checks)
        findings = [f"{finding.path}:{finding.line} {finding.message}" for finding in report.introduced]
        text = format_for_model(report)
        if policy.check_command is not None:
            command = self._review_command(policy.check_command, workspace)
            checks.append(command.entry)
            text += f"\n{command.text}"
            if command.entry["introduced"]:
                findings.append(command.entry["findings"][0]["message"])
            can_mend = command.could_run or len(findings) > 1
            return _Review(ReviewResult(checks=checks, findings=findings, can_mend=can_mend), text)
        return _Review(ReviewResult(checks=checks, findings=findings), text)

    def _review_command(self, command: str, workspace: Workspace) -> _CommandReview:
        """Runs the check command.

        A failure does not count against the change if the command also fails on the original files."""
        result = self._execute_command(command, workspace)
        if result.ok:
            return _CommandReview(_command_entry("passed"), result.summary, could_run=True)
        message = f"{result.summary}\n{result.output[-MAX_OUTPUT_CHARS:]}".rstrip()
        if result.ran and self._failed_before:
            text = f"{result.summary} It also failed before your changes, so leave it."
            return _CommandReview(_command_entry("passed", old=1), text, could_run=True)
        findings = [{"path": "", "line": 0, "message": message}]
        return _CommandReview(_command_entry("failed", introduced=1, findings=findings), message, result.ran)

    @cached_property
    def _failed_before(self) -> bool:
        assert self.project.policy.check_command is not None
        return not self._execute_command(self.project.policy.check_command, Workspace(self.origin)).ok

    def _execute_command(self, command: str, workspace: Workspace) -> CommandResult:
        return run_command(
            command,
            workspace,
            self._sandbox(),
            root=self.project.root,
            seconds=self.project.policy.check_minutes * 60,
            stoppable=self.stoppable,
            tools=self.tools,
        )


def _command_entry(
    status: str, *, introduced: int = 0, old: int = 0, findings: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    return {"name": COMMAND_CHECK, "status": status, "introduced": introduced, "old": old, "findings": list(findings)}
