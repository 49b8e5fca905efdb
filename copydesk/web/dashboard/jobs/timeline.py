"""What happened in a job, as sentences for whoever looks on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from copydesk.jobs.job import Job, Phase, Reason, Status
from copydesk.jobs.storage.records import JobEvent

MAX_THOUGHT_CHARS = 1_000
PROMPT_EVENT_KINDS = ("queued", "message")
EVENT_KINDS = (*PROMPT_EVENT_KINDS, "phase", "resumed", "thought", "tool", "checked", "waiting", "pushed",
               "pull_request", "finished",
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
    Reason.NO_CHANGES: "Nothing was changed",
    Reason.CANCELLED: "Cancelled",
    Reason.TIMED_OUT: "Out of time",
    Reason.BUDGET_EXCEEDED: "Out of budget",
    Reason.MODEL_ERROR: "The model failed",
    Reason.REPOSITORY_ERROR: "The repository could not be used",
    Reason.PUBLISH_REFUSED: "The change may not be published",
    Reason.CHECKS_FAILED: "The checks found faults",
    Reason.INTERNAL_ERROR: "Something went wrong here",
}
# What a tool did, and what it tried to where it could not.
TOOL_SENTENCES = {
    "list": ("Looked through the files", "look through the files"),
    "read": ("Read {path}", "read {path}"),
    "search": ("Searched the files: {result}", "search the files"),
    "diff": ("Looked at the change so far", "look at the change"),
    "edit": ("Edited {path}", "edit {path}"),
    "write": ("Wrote {path}", "write {path}"),
    "move": ("{result}", "move {path}"),
    "delete": ("Deleted {path}", "delete {path}"),
    "check": ("Checked the change: {result}", "check the change"),
    "finish": ("Called it finished", "finish"),
}


@dataclass(frozen=True)
class TimelineStep:
    """`tone` is for the eye alone: the words say it too."""

    text: str
    tone: str = ""
    more: list[str] = field(default_factory=list)
    seq: int = 0
    at: int = 0


@dataclass(frozen=True)
class PromptTurn:
    """What a person asked, and what came of it."""

    prompt: str
    at: int
    steps: list[TimelineStep]


def group_by_prompt(events: Sequence[JobEvent]) -> list[PromptTurn]:
    prompt_turns: list[PromptTurn] = []
    for event in events:
        if event.kind in PROMPT_EVENT_KINDS:
            prompt_turns.append(PromptTurn(str(event.data.get("prompt", "")), event.at, []))
        elif prompt_turns:
            prompt_turns[-1].steps.append(step_from_event(event))
    return prompt_turns


def step_from_event(event: JobEvent) -> TimelineStep:
    step = _describe_event(event.kind, event.data)
    return TimelineStep(step.text, step.tone, step.more, event.seq, event.at)


def build_event_payload(event: JobEvent) -> dict[str, Any]:
    """For a page that is open already."""
    return {"said": asdict(step_from_event(event))}


def describe_outcome(job: Job) -> str:
    """In a few words, how it stands with the job."""
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
            return TimelineStep(f"Taken up again after an interruption (attempt {data['attempt']})", "quiet")
        case "thought":
            text = data["text"].strip()
            return TimelineStep(text if len(text) <= MAX_THOUGHT_CHARS else f"{text[:MAX_THOUGHT_CHARS]} …", "words")
        case "tool":
            return _describe_tool_use(data)
        case "checked" if data["passed"]:
            return TimelineStep("The checks found nothing wrong with the change", "good")
        case "checked":
            count = len(data["faults"])
            return TimelineStep(
                f"The checks found {count} fault{'' if count == 1 else 's'}", "bad", list(data["faults"])
            )
        case "waiting":
            return TimelineStep(f"Waiting {data['seconds']} s: {data['why']}", "quiet")
        case "pushed":
            return TimelineStep(f"Pushed commit {data['commit'][:10]} to {data['branch']}")
        case "pull_request":
            return TimelineStep("The pull request is there")
        case "finished" if data["status"] == Status.COMPLETED:
            return TimelineStep("Completed" + (f": {data['message']}" if data.get("message") else ""), "good")
        case "finished":
            return TimelineStep("Failed" + (f": {data['message']}" if data.get("message") else ""), "bad")
        case "archived":
            return TimelineStep("Archived", "quiet")
        case "unarchived":
            return TimelineStep("Taken out of the archive", "quiet")
        case _:
            return TimelineStep(kind.replace("_", " ").capitalize(), "quiet")


def _describe_tool_use(data: dict[str, Any]) -> TimelineStep:
    tool, result = data["tool"], data["result"]
    success_text, attempt_text = TOOL_SENTENCES.get(tool, (f"Used {tool}: {{result}}", f"use {tool}"))
    path = data.get("path") or "a file"
    if not data["ok"]:
        return TimelineStep(f"Could not {attempt_text.replace('{path}', path)}: {result}", "bad")
    return TimelineStep(success_text.replace("{path}", path).replace("{result}", result.removesuffix(".")))
