"""Reviews a job's changes with the checks and the project's check command, relative to the commit it started from."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel

from copydesk.core.projects.projects import Project
from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import truncate
from copydesk.jobs.agent.tools import Check
from copydesk.jobs.agent.tools.tool import ToolRefused
from copydesk.jobs.check_summary import COMMAND_CHECK, describe_passed
from copydesk.jobs.checks import CheckReport, format_for_api, format_for_model
from copydesk.jobs.checks.check_command import CommandResult, run_command
from copydesk.jobs.checks.finding_queries import (
    MAX_ID_MESSAGE_CHARS,
    finding_id,
    format_findings,
    mark_intended,
)
from copydesk.jobs.checks.findings import Finding, name_rule
from copydesk.jobs.execution.stoppable import Stoppable
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Changes, Workspace

MAX_OUTPUT_CHARS = 4000
COMMAND_BUDGET_RUNS = 3
"""The tool run_checks may take this many times the minutes of the check command in one attempt."""
UNFINISHED = (
    "Not finished yet: your changes introduce these problems. Fix them, then call finish again. If one is right as it "
    "is, name its id in intended, with the reason."
)
NOT_ACCEPTED = (
    "Not accepted as intended, because no other open pull request of this project adds the missing file: {}. Correct "
    "or remove these references; otherwise the reviewer sees them as findings."
)
FAILED_BEFORE = "it fails without the change, too"
NONE_INTENDED: Mapping[str, str] = MappingProxyType({})
MISSING_FILE_RULES = ("link", "image", "include")
"""The rules whose findings can be intended only if another open pull request adds the file."""


class IntendedFinding(BaseModel):
    """A finding that the model left as it is."""

    id: str
    path: str
    line: int
    message: str
    reason: str

    @property
    def text(self) -> str:
        return f"{self.path}:{self.line} {truncate(self.message, MAX_ID_MESSAGE_CHARS)} Intended: {self.reason}"


class ReviewResult(BaseModel):
    """The outcome of a review. `checks` has one entry for each check that ran, as the API shows it."""

    checks: list[dict[str, Any]]
    findings: list[str] = []
    """Findings that the change introduces and that are not intended, one line each."""
    intended: list[IntendedFinding] = []
    """Findings that the change introduces and that the model declared intended, as far as that was accepted."""
    fixed: list[str] = []
    """Problems that existed before and that the change fixes, one line each."""
    can_mend: bool = True
    """False if a model cannot fix the findings: only the check command failed, and it could not be run."""

    @property
    def problems(self) -> list[str]:
        """Returns a line for each finding, also for those that are intended."""
        return [*self.findings, *(each.text for each in self.intended)]

    @property
    def finding_ids(self) -> set[str]:
        """Returns the IDs of the findings that the change introduces, as far as the API shows them."""
        shown = {finding["id"] for entry in self.checks for finding in entry["findings"] if "id" in finding}
        return shown | {each.id for each in self.intended}

    @property
    def command_output(self) -> str:
        """Returns what the check command wrote; empty unless the change makes it fail."""
        failed = (each for each in self.checks if each["name"] == COMMAND_CHECK and each["findings"])
        return next((str(each["findings"][0]["message"]) for each in failed), "")

    @property
    def please_check(self) -> list[str]:
        """Returns a line for each name that exists nowhere but may be right, so that a person decides."""
        return [
            f"{each['path']}:{each['line']} {each['message']}"
            for entry in self.checks
            for each in entry.get("pleaseCheck", ())
        ]

    @property
    def summary_lines(self) -> list[str]:
        """Returns the lines about checks in the pull request."""
        passed = describe_passed(self.checks)
        old_count = sum(entry["old"] for entry in self.checks if entry["name"] != COMMAND_CHECK)
        lines = [f"passed: {', '.join(passed)}"] if passed else []
        lines += ["nothing in this change to judge"] if not self.checks else []
        failed = (name_rule(entry["name"]) for entry in self.checks if entry["status"] == "failed")
        lines += [f"**failed: {rule}**" for rule in failed]
        unjudged = (entry for entry in self.checks if entry.get("reason"))
        lines += [f"not judged: {name_rule(entry['name'])} ({entry['reason']})" for entry in unjudged]
        lines += [f"please check: {line}" for line in self.please_check]
        if note_count := sum(len(entry.get("notes", ())) for entry in self.checks):
            lines.append("1 note, which needs no change" if note_count == 1 else f"{note_count} notes")
        if old_count:
            lines.append(f"{pluralize(old_count, 'existing problem')} not touched by this change")
        return lines

    @property
    def unjudged_rules(self) -> list[str]:
        """Returns the rules that could not judge a part of the change."""
        return [entry["name"] for entry in self.checks if entry.get("reason") or entry.get("pleaseCheck")]


CheckWorkspace = Callable[[Workspace, Tree, Sequence[str], Sequence[str]], CheckReport]
"""Checks a workspace against the tree it started from, given required front-matter fields and ignored checks."""


class _CommandReview(NamedTuple):
    entry: dict[str, Any]
    """The entry of the check command, as the API shows it."""
    text: str
    could_run: bool


@dataclass
class _Reviewed:
    """The reviews of one state of the workspace."""

    changes: Changes
    report: CheckReport
    command: _CommandReview | None = None


class Reviewer:
    """Reviews a workspace. Caches the last results: finish, the tools and publishing review the same changes."""

    def __init__(
        self,
        project: Project,
        origin: Tree,
        check: CheckWorkspace,
        sandbox: Callable[[], Sandbox | SandboxUnavailable],
        stoppable: Stoppable,
        tools: Sequence[str] = (),
        list_planned_paths: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self.project = project
        self.origin = origin
        self.stoppable = stoppable
        self.tools = tools
        self.list_planned_paths = list_planned_paths
        """Returns the files that other open pull requests of the project add."""
        self._check = check
        self._sandbox = sandbox
        self._reviewed: _Reviewed | None = None
        self._seconds_left = COMMAND_BUDGET_RUNS * project.policy.check_minutes * 60

    def review(self, workspace: Workspace, intended: Mapping[str, str] = NONE_INTENDED) -> ReviewResult:
        """Reviews the changes. `intended` has the reasons of findings that the model declared intended, by ID."""
        report = self._get_report(workspace)
        intended = self._accept_intended(workspace, intended)
        ignored_checks = self.project.policy.ignored_checks
        checks = add_notes(mark_intended(format_for_api(without_notes(report), ignored_checks), intended), report)
        findings, excused = [], []
        for each in report.introduced:
            identifier = _get_id(each)
            if identifier in intended:
                excused.append(
                    IntendedFinding(
                        id=identifier, path=each.path, line=each.line, message=each.message, reason=intended[identifier]
                    )
                )
            elif not each.is_note:
                findings.append(f"{each.path}:{each.line} {each.message}")
        can_mend = True
        if (command := self._get_command_review(workspace)) is not None:
            checks.append(command.entry)
            if command.entry["introduced"]:
                findings.append(command.entry["findings"][0]["message"])
            can_mend = command.could_run or len(findings) > 1
        fixed = [f"{each.path}:{each.line} {truncate(each.message, MAX_ID_MESSAGE_CHARS)}" for each in report.fixed]
        return ReviewResult(checks=checks, findings=findings, intended=excused, fixed=fixed, can_mend=can_mend)

    def describe_for_model(self, workspace: Workspace, query: Check) -> str:
        """Returns the findings of the checks as text for the model, on request with those that existed before."""
        report = self._get_report(workspace)
        lines = [format_for_model(without_notes(report)), *_describe_notes(report)]
        if query.existing:
            existing = format_findings(report.old, query.files, query.rule)
            fixed = format_findings(report.fixed, query.files, query.rule)
            lines += ["Existed before:", *(existing or ["none"]), "Fixed by your changes:", *(fixed or ["none"])]
        return "\n".join(lines)

    def run_command_for_model(self, workspace: Workspace) -> str:
        """Runs the check command as a tool. Raises ToolRefused once all runs together took too long."""
        if self._seconds_left <= 0:
            raise ToolRefused("run_checks has used up its time. Call finish; the command then runs once more.")
        started = time.monotonic()
        command = self._get_command_review(workspace)
        self._seconds_left -= time.monotonic() - started
        assert command is not None
        return command.text

    def explain_findings(self, workspace: Workspace, intended: Mapping[str, str] = NONE_INTENDED) -> str | None:
        """Returns why the model may not finish yet, or None if it may."""
        if not workspace.changes():
            return None
        result = self.review(workspace, intended)
        if not result.findings or not result.can_mend:
            return None
        command = self._get_command_review(workspace)
        report = self._get_report(workspace)
        accepted = {each.id for each in result.intended}
        refused = sorted({_get_id(each) for each in report.introduced} & intended.keys() - accepted)
        refusal = NOT_ACCEPTED.format(", ".join(refused)) if refused else ""
        text = format_for_model(without_notes(report, accepted))
        return "\n".join(filter(None, [UNFINISHED, refusal, text, command.text if command else ""]))

    def _accept_intended(self, workspace: Workspace, intended: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the declarations without those of references to a missing file that no other pull request adds.

        Judges the change as if the files of the other pull requests existed, so that the rules of the generator decide
        which file a reference leads to."""
        report = self._get_report(workspace)
        missing = {_get_id(each) for each in report.introduced if each.rule in MISSING_FILE_RULES} & intended.keys()
        if not missing:
            return intended
        planned = [path for path in self.list_planned_paths() if not workspace.exists(path)]
        if planned:
            merged = Workspace(workspace.tree, root=workspace.root, contexts=list(workspace.contexts.values()))
            merged.restore({**workspace.changes(), **dict.fromkeys(planned, b"")})
            missing &= {_get_id(each) for each in self._run_rules(merged).introduced}
        return {identifier: reason for identifier, reason in intended.items() if identifier not in missing}

    def _get_report(self, workspace: Workspace) -> CheckReport:
        return self._get_reviewed(workspace).report

    def _get_reviewed(self, workspace: Workspace) -> _Reviewed:
        changes = workspace.changes()
        if self._reviewed is None or self._reviewed.changes != changes:
            self._reviewed = _Reviewed(changes, self._run_rules(workspace))
        return self._reviewed

    def _run_rules(self, workspace: Workspace) -> CheckReport:
        policy = self.project.policy
        return self._check(workspace, self.origin, policy.required_fields, policy.ignored_checks)

    def _get_command_review(self, workspace: Workspace) -> _CommandReview | None:
        if self.project.policy.check_command is None:
            return None
        reviewed = self._get_reviewed(workspace)
        if reviewed.command is None:
            reviewed.command = self._review_command(self.project.policy.check_command, workspace)
        return reviewed.command

    def _review_command(self, command: str, workspace: Workspace) -> _CommandReview:
        """Runs the check command.

        A failure does not count against the change if the command also fails on the original files."""
        result = self._execute_command(command, workspace)
        if result.ok:
            return _CommandReview(_command_entry("passed"), result.summary, could_run=True)
        message = f"{result.summary}\n{result.output[-MAX_OUTPUT_CHARS:]}".rstrip()
        if result.ran and self._failed_before:
            text = f"{result.summary} It also failed before your changes, so leave it."
            entry = _command_entry("not_judged", old=1) | {"reason": FAILED_BEFORE}
            return _CommandReview(entry, text, could_run=True)
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


def without_notes(report: CheckReport, intended: Collection[str] = ()) -> CheckReport:
    """Returns the report without findings that are only notes or that are intended, by ID."""
    introduced = tuple(each for each in report.introduced if not each.is_note and _get_id(each) not in intended)
    return replace(report, introduced=introduced)


def _get_id(finding: Finding) -> str:
    return finding_id(finding.rule, finding.path, finding.message)


def add_notes(checks: list[dict[str, Any]], report: CheckReport) -> list[dict[str, Any]]:
    """Returns the entries of the API with the notes of each rule, where there are any."""
    for each in (finding for finding in report.introduced if finding.is_note):
        for entry in checks:
            if entry["name"] == each.rule:
                note = {"path": each.path, "line": each.line, "message": each.message}
                entry["notes"] = [*entry.get("notes", []), note]
    return checks


def _describe_notes(report: CheckReport) -> list[str]:
    notes = format_findings(finding for finding in report.introduced if finding.is_note)
    return ["Notes, which you may leave if they are intended:", *notes] if notes else []


def _command_entry(
    status: str, *, introduced: int = 0, old: int = 0, findings: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    return {
        "name": COMMAND_CHECK,
        "status": status,
        "judged": 1,
        "introduced": introduced,
        "old": old,
        "findings": list(findings),
    }
