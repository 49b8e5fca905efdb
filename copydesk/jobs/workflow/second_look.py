"""A second look at a finished change: another model, or the same, reads it with fresh eyes and objects."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field, ValidationError

from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import truncate
from copydesk.jobs.agent.brief import Brief, Briefable
from copydesk.jobs.agent.conversation import LookResult, Model, ModelFailed, Objection, Prompt, Reply
from copydesk.jobs.agent.loop import TakeSecondLook
from copydesk.jobs.agent.models import usage_metrics
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import MessageText
from copydesk.jobs.job import JobFailed, JobObjection, JobSecondLook
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.workflow.review import IntendedFinding, Reviewer, ReviewResult
from copydesk.jobs.workspace.patches import FilePatch
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Workspace, short_hash

log = logging.getLogger(__name__)

MAX_SECONDS = 300.0
RESERVED_SECONDS = 60.0
"""The time before the job's deadline that is left for publishing."""
MAX_OBJECTIONS = 20
MAX_OBJECTION_CHARS = 1000
MAX_REQUEST_CHARS = 20_000
MAX_DIFF_CHARS = 60_000
MAX_FINDINGS_CHARS = 8000
REPORT_TOOL_NAME = "report"


class ReportedObjection(ToolArguments):
    path: str = Field(min_length=1, max_length=1000)
    line: int = Field(0, ge=0)
    """The line in the new file; 0 for the whole file."""
    text: str = Field(min_length=1)
    """What is wrong, and what would be right."""
    finding: str = ""
    """The id of the finding whose reason you object to; empty for every other objection."""


class Report(ToolArguments):
    objections: list[ReportedObjection]


def report(_workspace: Workspace, _arguments: Report) -> str:
    """Reports all objections to the change. Call it once; with an empty list if there are none."""
    return "Reported."


REPORT_TOOL = Tool.from_function(REPORT_TOOL_NAME, Report, report)


@cache
def load_second_look_prompt() -> str:
    return files("copydesk.jobs.agent").joinpath("prompts/second_look.md").read_text("utf-8")


@dataclass(frozen=True)
class SecondLook:
    """Asks the review model once. A model that fails or answers badly is noted in the result; it raises nothing.

    `review` judges the change with the checks, `read_messages` returns what was asked for, with its data."""

    model_name: str
    create_model: Callable[[], Model]
    attempt: Attempt
    review: Callable[[Workspace, Finished], ReviewResult]
    read_messages: Callable[[], Sequence[MessageText]]

    def take(
        self, workspace: Workspace, finished: Finished, patches: Sequence[FilePatch], runner: asyncio.Runner
    ) -> LookResult:
        deadline = min(self.attempt.deadline - RESERVED_SECONDS, time.monotonic() + MAX_SECONDS)
        if deadline <= time.monotonic():
            return LookResult(note="It was skipped, because the job's time is almost over.")
        review = self.review(workspace, finished)
        prompt = self._render_prompt(review, finished, patches)
        started = time.monotonic()
        try:
            reply = self.attempt.run_coroutine(runner, self._ask(prompt, workspace, deadline))
        except ModelFailed as failure:
            usage_metrics.record_model_usage(self.model_name, started, failure.usage, "failed")
            return LookResult(note=f"The model did not answer: {truncate(str(failure), 300)}", usage=failure.usage)
        usage_metrics.record_model_usage(self.model_name, started, reply.usage, "answered")
        return read_objections(reply, workspace, review.intended)

    async def _ask(self, prompt: str, workspace: Workspace, deadline: float) -> Reply:
        """Returns the model's reply. Raises ModelFailed for every failure, also for a model that is not configured."""
        try:
            model = self.create_model()
            if isinstance(model, Briefable):
                model = model.with_brief(Brief("", (REPORT_TOOL,), deadline, load_second_look_prompt()))
            async with asyncio.timeout(deadline - time.monotonic()):
                return await model.reply([Prompt(text=prompt)], workspace)
        except TimeoutError:
            raise ModelFailed("it took too long.") from None
        except ModelFailed:
            raise
        except JobFailed as failure:
            raise ModelFailed(str(failure)) from None
        except Exception:
            log.exception("the second look failed")
            raise ModelFailed("an internal error, which the log describes.") from None

    def _render_prompt(self, review: ReviewResult, finished: Finished, patches: Sequence[FilePatch]) -> str:
        diff = b"".join(patch.data for patch in patches).decode("utf-8", "replace")
        cut = f"\n… cut after {MAX_DIFF_CHARS:,} characters of {len(diff):,}" if len(diff) > MAX_DIFF_CHARS else ""
        findings = "\n".join(review.findings) or "none"
        intended = "\n".join(f"[{each.id}] {each.text}" for each in review.intended) or "none"
        messages = self.read_messages()
        request = "\n".join(message.prompt for message in messages)
        collected = "\n\n".join(message.data for message in messages if message.data) or "none"
        return "\n\n".join(
            [
                f"Request:\n{truncate(request, MAX_REQUEST_CHARS)}",
                f"Data that Copydesk added to the request:\n{truncate(collected, MAX_REQUEST_CHARS)}",
                f"The author's summary:\n{truncate(finished.summary, MAX_FINDINGS_CHARS)}",
                f"Findings of the checks:\n{truncate(findings, MAX_FINDINGS_CHARS)}",
                f"Findings left as intended, with the author's reasons:\n{truncate(intended, MAX_FINDINGS_CHARS)}",
                f"Diff:\n{diff[:MAX_DIFF_CHARS]}{cut}",
            ]
        )


def build_second_look(
    model_name: str | None,
    create_model: Callable[[str], Model],
    attempt: Attempt,
    reviewer: Reviewer,
    read_messages: Callable[[], Sequence[MessageText]],
) -> TakeSecondLook | None:
    """Returns the function that takes the second look; None if the project has no review model."""
    if model_name is None:
        return None

    def review(workspace: Workspace, finished: Finished) -> ReviewResult:
        return reviewer.review(workspace, finished.intended_reasons)

    return SecondLook(model_name, lambda: create_model(model_name), attempt, review, read_messages).take


def read_objections(reply: Reply, workspace: Workspace, intended: Sequence[IntendedFinding] = ()) -> LookResult:
    """Returns the objections of a reply. Leaves out those that are malformed or name no file, and notes how many."""
    call = next((call for call in reply.calls if call.name == REPORT_TOOL_NAME), None)
    entries = call.arguments.get("objections") if call else None
    if not isinstance(entries, list):
        return LookResult(note="The model did not answer in the form that was asked for.", usage=reply.usage)
    objections: list[Objection] = []
    for entry in entries:
        objection = _read_objection(entry, workspace, len(objections) + 1, intended)
        if objection is not None and len(objections) < MAX_OBJECTIONS:
            objections.append(objection)
    omitted = len(entries) - len(objections)
    note = (
        f"{pluralize(omitted, 'objection')} could not be read, or named no file of the repository." if omitted else ""
    )
    return LookResult(objections=tuple(objections), note=note, usage=reply.usage)


def _read_objection(
    entry: Any, workspace: Workspace, number: int, intended: Sequence[IntendedFinding]
) -> Objection | None:
    try:
        reported = ReportedObjection.model_validate(entry)
    except ValidationError:
        return None
    text = " ".join(reported.text.replace("\x00", "").split())
    lines = _read_lines(workspace, reported.path)
    if not text or (lines is None and workspace.read_original(reported.path) is None):
        return None
    has_line = lines is not None and 0 < reported.line <= len(lines)
    return Objection(
        id=f"look-{number}",
        path=reported.path,
        line=reported.line if has_line else 0,
        text=truncate(text, MAX_OBJECTION_CHARS),
        quote=lines[reported.line - 1] if has_line and lines is not None else "",
        file_hash=_hash_file(workspace, reported.path),
        finding=next(
            (each.id for each in intended if reported.finding == each.id),
            next((each.id for each in intended if (each.path, each.line) == (reported.path, reported.line)), ""),
        ),
    )


def summarize_look(
    look: LookResult | None,
    model_name: str | None,
    workspace: Workspace,
    answers: Mapping[str, str],
    finding_ids: Collection[str],
    known_secrets: Sequence[str],
    earlier: JobSecondLook | None = None,
) -> JobSecondLook | None:
    """Returns the objections that remain: those that were answered, and those whose line or file is as it was.

    An objection to the reason of an intended finding remains as long as the change has the finding. Those of an
    `earlier` run remain until another look judges the change."""
    if model_name is None:
        return None
    if earlier is not None and earlier.objections and (look is None or (look.note and not look.objections)):
        note = redact_secrets(look.note, known_secrets) if look else None
        return earlier.model_copy(update={"note": note})
    if look is None:
        return None
    remaining = [
        JobObjection(
            path=each.path, line=each.line, text=redact_secrets(each.text, known_secrets), answer=answers.get(each.id)
        )
        for each in look.objections
        if (each.finding in finding_ids if each.finding else each.id in answers or _is_unchanged(each, workspace))
    ]
    note = redact_secrets(look.note, known_secrets) or None
    return JobSecondLook(model=model_name, total=len(look.objections), objections=tuple(remaining), note=note)


def _is_unchanged(objection: Objection, workspace: Workspace) -> bool:
    if objection.line:
        return objection.quote in (_read_lines(workspace, objection.path) or ())
    return _hash_file(workspace, objection.path) == objection.file_hash


def _read_lines(workspace: Workspace, path: str) -> list[str] | None:
    """Returns the lines of a file; None if it does not exist, and none of a file that is not text."""
    try:
        return DecodedText.decode(workspace.read(path)).body.split("\n") if workspace.is_readable(path) else []
    except KeyError:
        return None
    except NotEditable:
        return []


def _hash_file(workspace: Workspace, path: str) -> str:
    return short_hash(workspace.read(path)) if workspace.exists(path) and workspace.is_readable(path) else ""
