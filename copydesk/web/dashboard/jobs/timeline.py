"""What happened in a job, as sentences for whoever looks on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from copydesk.jobs.job import Job, Phase, Reason, Status
from copydesk.jobs.storage.records import Event

LONGEST_THOUGHT = 1_000
ASKED = ("queued", "message")
KINDS = (*ASKED, "phase", "resumed", "thought", "tool", "checked", "waiting", "pushed", "pull_request", "finished",
         "archived", "unarchived")  # fmt: skip
PHASES = {
    Phase.QUEUED: "Waiting for a worker",
    Phase.PREPARING: "Preparing the repository",
    Phase.THINKING: "Thinking",
    Phase.CHECKING: "Checking the change",
    Phase.PUBLISHING: "Publishing the change",
    Phase.DONE: "Done",
}
REASONS = {
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
TOOLS = {
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
class Step:
    """`tone` is for the eye alone: the words say it too."""

    text: str
    tone: str = ""
    more: list[str] = field(default_factory=list)
    seq: int = 0
    at: int = 0


@dataclass(frozen=True)
class Turn:
    """What a person asked, and what came of it."""

    prompt: str
    at: int
    steps: list[Step]


def turns(events: Sequence[Event]) -> list[Turn]:
    found: list[Turn] = []
    for event in events:
        if event.kind in ASKED:
            found.append(Turn(str(event.data.get("prompt", "")), event.at, []))
        elif found:
            found[-1].steps.append(step_of(event))
    return found


def step_of(event: Event) -> Step:
    step = _said(event.kind, event.data)
    return Step(step.text, step.tone, step.more, event.seq, event.at)


def told(event: Event) -> dict[str, Any]:
    """For a page that is open already."""
    return {"said": asdict(step_of(event))}


def outcome(job: Job) -> str:
    """In a few words, how it stands with the job."""
    if job.status is Status.ACTIVE:
        return PHASES[job.phase]
    if job.reason is not None:
        return REASONS[job.reason]
    return "Completed" if Status.COMPLETED in (job.status, job.archived_from) else "Failed"


def _said(kind: str, data: dict[str, Any]) -> Step:
    match kind:
        case "phase":
            return Step(PHASES.get(data["phase"], data["phase"]), "quiet")
        case "resumed":
            return Step(f"Taken up again after an interruption (attempt {data['attempt']})", "quiet")
        case "thought":
            text = data["text"].strip()
            return Step(text if len(text) <= LONGEST_THOUGHT else f"{text[:LONGEST_THOUGHT]} …", "words")
        case "tool":
            return _used(data)
        case "checked" if data["passed"]:
            return Step("The checks found nothing wrong with the change", "good")
        case "checked":
            count = len(data["faults"])
            return Step(f"The checks found {count} fault{'' if count == 1 else 's'}", "bad", list(data["faults"]))
        case "waiting":
            return Step(f"Waiting {data['seconds']} s: {data['why']}", "quiet")
        case "pushed":
            return Step(f"Pushed commit {data['commit'][:10]} to {data['branch']}")
        case "pull_request":
            return Step("The pull request is there")
        case "finished" if data["status"] == Status.COMPLETED:
            return Step("Completed" + (f": {data['message']}" if data.get("message") else ""), "good")
        case "finished":
            return Step("Failed" + (f": {data['message']}" if data.get("message") else ""), "bad")
        case "archived":
            return Step("Archived", "quiet")
        case "unarchived":
            return Step("Taken out of the archive", "quiet")
        case _:
            return Step(kind.replace("_", " ").capitalize(), "quiet")


def _used(data: dict[str, Any]) -> Step:
    tool, result = data["tool"], data["result"]
    did, tried = TOOLS.get(tool, (f"Used {tool}: {{result}}", f"use {tool}"))
    path = data.get("path") or "a file"
    if not data["ok"]:
        return Step(f"Could not {tried.replace('{path}', path)}: {result}", "bad")
    return Step(did.replace("{path}", path).replace("{result}", result.removesuffix(".")))
