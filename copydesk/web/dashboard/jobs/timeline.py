"""Describes the events of a job in sentences."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.checks.findings import name_rule
from copydesk.jobs.job import Creator, CreatorKind, Job, Phase, Reason, Status
from copydesk.jobs.storage.records import EventKind, JobEvent

MAX_THOUGHT_CHARS = 1_000
PROMPT_EVENT_KINDS = ("queued", "message")
EVENT_KINDS = (*PROMPT_EVENT_KINDS, "data", "phase", "resumed", "thought", "tool", "checked", "waiting", "pushed",
               "pull_request", "reviewers", "finished",
         "archived", "unarchived")  # fmt: skip
PHASE_LABELS = {
    Phase.QUEUED: "Waiting for a worker",
    Phase.PREPARING: "Preparing the repository",
    Phase.THINKING: "Thinking",
    Phase.CHECKING: "Checking the change",
    Phase.PUBLISHING: "Publishing the change",
    Phase.DONE: "Done",
}
REASON_LABELS = {
    Reason.NO_CHANGES: "No changes",
    Reason.NOT_UNDERSTOOD: "Not understood",
    Reason.QUESTION: "Question",
    Reason.CANCELLED: "Cancelled",
    Reason.TIMED_OUT: "Timed out",
    Reason.BUDGET_EXCEEDED: "Out of budget",
    Reason.MODEL_ERROR: "Model error",
    Reason.REPOSITORY_ERROR: "Repository error",
    Reason.PUBLISH_REFUSED: "Publishing was refused",
    Reason.CHECKS_FAILED: "Checks failed",
    Reason.INTERNAL_ERROR: "Internal error",
}
CREATOR_FORMATS = {
    CreatorKind.PERSON: "{name}",
    CreatorKind.KEY: "key “{name}”",
    CreatorKind.AUTOMATION: "automation {name}",
    CreatorKind.REVIEW_COMMENT: "{name}, in a comment",
}
# For each tool: the sentence if it succeeded, and the verb phrase after "Could not" if it failed.
TOOL_SENTENCES = {
    "list": ("Listed the files", "list the files"),
    "read": ("Read {path}", "read {path}"),
    "search": ("Searched the files: {result}", "search the files"),
    "history": ("Looked up the history of {path}", "look up the history of {path}"),
    "log": ("Listed commits", "list commits"),
    "show": ("Viewed a commit", "view a commit"),
    "diff": ("Viewed the diff", "view the diff"),
    "edit": ("Edited {path}", "edit {path}"),
    "write": ("Wrote {path}", "write {path}"),
    "move": ("{result}", "move {path}"),
    "delete": ("Deleted {path}", "delete {path}"),
    "replace": ("{result}", "replace the text"),
    "check": ("Checked the change: {result}", "check the change"),
    "run_checks": ("Ran the check command: {result}", "run the check command"),
    "ask": ("Asked a question", "ask a question"),
    "finish": ("Finished", "finish"),
}


@dataclass(frozen=True)
class TimelineStep:
    """One line of the timeline. `tone` is a CSS class; the text alone says everything."""

    text: str
    tone: str = ""
    more: list[str] = field(default_factory=list)
    seq: int = 0
    at: int = 0


@dataclass(frozen=True)
class PromptTurn:
    """A prompt of a person and the steps that followed it."""

    prompt: str
    at: int
    steps: list[TimelineStep]
    asker: str = ""
    """Who sent the prompt, as in describe_creator."""
    data: list[str] = field(default_factory=list)
    """What Copydesk collected for the agent."""


def describe_creator(creator: Creator | None) -> str:
    """Returns who asked, to follow the word "by"; empty if nobody was named."""
    if creator is None:
        return ""
    return CREATOR_FORMATS[creator.kind].replace("{name}", creator.name)


def group_by_prompt(job: Job, events: Sequence[JobEvent]) -> list[PromptTurn]:
    prompt_turns: list[PromptTurn] = []
    for event in events:
        if event.kind in PROMPT_EVENT_KINDS:
            sender = event.data.get("createdBy")
            creator = Creator.model_validate(sender) if sender else None if prompt_turns else job.created_by
            prompt = str(event.data.get("prompt", ""))
            prompt_turns.append(PromptTurn(prompt, event.at, [], describe_creator(creator)))
        elif prompt_turns and event.kind == EventKind.DATA:
            prompt_turns[-1].data.append(event.data["text"])
        elif prompt_turns:
            prompt_turns[-1].steps.append(step_from_event(event))
    return prompt_turns


def step_from_event(event: JobEvent) -> TimelineStep:
    step = _describe_event(event.kind, event.data)
    return TimelineStep(step.text, step.tone, step.more, event.seq, event.at)


def build_event_payload(event: JobEvent) -> dict[str, Any]:
    """Returns the extra data with which an open page adds the event to its timeline."""
    return {"said": asdict(step_from_event(event))}


def describe_outcome(job: Job) -> str:
    """Returns the state of the job in a few words."""
    if job.status is Status.ACTIVE:
        return PHASE_LABELS[job.phase]
    if job.reason is not None:
        return REASON_LABELS[job.reason]
    return "Completed" if Status.COMPLETED in (job.status, job.archived_from) else "Failed"


def _describe_event(kind: str, data: dict[str, Any]) -> TimelineStep:
    match kind:
        case "phase":
            return TimelineStep(PHASE_LABELS.get(data["phase"], data["phase"]), "quiet")
        case "resumed":
            return TimelineStep(f"Resumed after an interruption (attempt {data['attempt']})", "quiet")
        case "thought":
            text = data["text"].strip()
            return TimelineStep(text if len(text) <= MAX_THOUGHT_CHARS else f"{text[:MAX_THOUGHT_CHARS]} …", "words")
        case "tool":
            return _describe_tool_use(data)
        case "checked" if data["passed"] and data.get("notJudged"):
            return TimelineStep(
                f"No problems found; not judged: {', '.join(map(name_rule, data['notJudged']))}", "good"
            )
        case "checked" if data["passed"]:
            return TimelineStep("No problems found", "good")
        case "checked":
            count = len(data["findings"])
            return TimelineStep(f"Checks found {pluralize(count, 'problem')}", "bad", list(data["findings"]))
        case "waiting":
            return TimelineStep(f"Waiting {data['seconds']} s: {data['why']}", "quiet")
        case "pushed":
            return TimelineStep(f"Pushed commit {data['commit'][:10]} to {data['branch']}")
        case "pull_request":
            return TimelineStep("Opened or updated the pull request")
        case "reviewers" if data["requested"]:
            return TimelineStep(f"Asked {', '.join(data['requested'])} to review", more=list(data["notes"]))
        case "reviewers":
            return TimelineStep("Asked no author to review", "quiet", list(data["notes"]))
        case "finished" if run := data.get("run"):
            is_clear = run["reason"] != Reason.NOT_UNDERSTOOD
            label = "Changed nothing" if is_clear else REASON_LABELS[Reason.NOT_UNDERSTOOD]
            return TimelineStep(f"{label}: {run['message']}", "good" if is_clear else "warn")
        case "finished" if data.get("reason") == Reason.NOT_UNDERSTOOD:
            return TimelineStep(f"{REASON_LABELS[Reason.NOT_UNDERSTOOD]}: {data['message']}", "warn")
        case "finished" if data.get("reason") == Reason.QUESTION:
            return TimelineStep(f"{REASON_LABELS[Reason.QUESTION]}: {data['message']}", "warn")
        case "finished" if data["status"] == Status.COMPLETED:
            return TimelineStep("Completed" + (f": {data['message']}" if data.get("message") else ""), "good")
        case "finished":
            return TimelineStep("Failed" + (f": {data['message']}" if data.get("message") else ""), "bad")
        case "archived":
            return TimelineStep("Archived", "quiet")
        case "unarchived":
            return TimelineStep("Unarchived", "quiet")
        case _:
            return TimelineStep(kind.replace("_", " ").capitalize(), "quiet")


def _describe_tool_use(data: dict[str, Any]) -> TimelineStep:
    tool = data["tool"]
    result = data["result"]
    success_text, attempt_text = TOOL_SENTENCES.get(tool, (f"Used {tool}: {{result}}", f"use {tool}"))
    path = data.get("path") or "a file"
    if not data["ok"]:
        return TimelineStep(f"Could not {attempt_text.replace('{path}', path)}: {result}", "bad")
    return TimelineStep(success_text.replace("{path}", path).replace("{result}", result.removesuffix(".")))
