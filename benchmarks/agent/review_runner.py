"""Runs review cases in one service, and compares what the reviewer is told with what they must be told."""

import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx

from benchmarks.agent.report import render_table
from benchmarks.agent.review_cases import ReviewCase
from benchmarks.agent.runner import wait_for_end
from benchmarks.agent.scripted import ScriptedModel, ScriptedTurn
from copydesk.core.projects.projects import Project
from copydesk.jobs.agent.conversation import Conversation, Model, Reply, ToolCall
from copydesk.jobs.job import Job, Reason
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.publish.forges.local import LocalPull
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import EventKind
from copydesk.jobs.workspace.workspace import Workspace
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

MODEL_PREFIX = "openai:"
EARLIER_SUFFIX, REVIEWER_SUFFIX = ".earlier", ".reviewer"
FOLDED_PATTERN = re.compile(r"<details(?![^>]*\bopen\b)[^>]*>.*?</details>", re.S)
FINDING_ID_PATTERN = re.compile(r"\(id ([0-9a-f]{8})\)")
TAG_PATTERN = re.compile(r"<[^>]*>")


class ScriptedAuthor:
    """Follows a script. Declares a finding intended by its ID, which it reads where the script says FINDING."""

    def __init__(self, turns: Sequence[ScriptedTurn]) -> None:
        self.name = "author"
        self.script = ScriptedModel(list(turns))

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        reply = await self.script.reply(conversation, workspace)
        ids = FINDING_ID_PATTERN.findall(conversation[-1].model_dump_json())
        calls = [call.model_copy(update={"arguments": _name_findings(call.arguments, ids)}) for call in reply.calls]
        return reply.model_copy(update={"calls": tuple(calls)})


def _name_findings(arguments: dict[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    if "intended" not in arguments:
        return arguments
    named = [
        {**each, "id": finding}
        for each in arguments["intended"]
        for finding in (ids if each["id"] == "FINDING" else [each["id"]])
    ]
    return {**arguments, "intended": named}


class Reviewer:
    """Objects to every change in the same way."""

    def __init__(self, objections: Sequence[dict[str, object]]) -> None:
        self.name = "reviewer"
        self.objections = list(objections)

    async def reply(self, _conversation: Conversation, _workspace: Workspace) -> Reply:
        return Reply(calls=(ToolCall(id="look", name="report", arguments={"objections": self.objections}),))


class ReviewResult(NamedTuple):
    case: ReviewCase
    outcome: str
    risk: dict[str, list[str]]
    """The texts of the job's risks by kind."""
    faults: list[str]
    """How this differs from what is expected."""


def run_review_cases(cases: Sequence[ReviewCase]) -> Iterator[ReviewResult]:
    models = {name: model for case in cases for name, model in _build_models(case).items()}
    with tempfile.TemporaryDirectory(prefix="copydesk-reviews-") as name:
        folder = Path(name)
        first = make_repository(folder / "first.git", {"index.md": b"# First\n"})
        with (
            serve(folder / "data", repository=first, model=models.__getitem__, models=tuple(models)) as service,
            signed_in_client(service) as browser,
        ):
            for case in cases:
                yield _run_case(service, browser, case, folder / case.name)


def _build_models(case: ReviewCase) -> dict[str, Model]:
    models: dict[str, Model] = {MODEL_PREFIX + case.name: ScriptedAuthor(case.replies)}
    if case.earlier:
        models[MODEL_PREFIX + case.name + EARLIER_SUFFIX] = ScriptedAuthor(case.earlier)
    if case.objections is not None:
        models[MODEL_PREFIX + case.name + REVIEWER_SUFFIX] = Reviewer(case.objections)
    return models


def _run_case(service: Service, browser: httpx.Client, case: ReviewCase, folder: Path) -> ReviewResult:
    desk = service.desk
    repository = make_repository(folder / "docs.git", case.repository_files)
    project = desk.projects.create(case.name, repository=str(repository), ref="main", actor="benchmark")
    if case.objections is not None:
        options = {"review_model": MODEL_PREFIX + case.name + REVIEWER_SUFFIX}
        project = desk.projects.change(project.id, options, actor="benchmark")
    if case.earlier:
        _run_job(service, project, case.prompt, MODEL_PREFIX + case.name + EARLIER_SUFFIX)
    if case.context is not None:
        make_repository(folder / "code.git", {path: text.encode() for path, text in case.context.items()})
        desk.contexts.add(project, NewContext("code", str(folder / "code.git")), actor="benchmark")
    job = _run_job(service, project, case.prompt, MODEL_PREFIX + case.name, case.data)
    pull = next((each for each in desk.pulls.list_for_project(project.id) if each.job_id == job.id), None)
    risk: dict[str, list[str]] = {}
    for each in job.risk:
        risk.setdefault(each.kind, []).append(each.text)
    outcome = _describe_outcome(job, pull)
    faults = [] if outcome == case.expected.outcome else [f"{outcome} ({job.reason or 'no reason'}: {job.message})"]
    faults += _compare_risks(case, risk)
    faults += [f"a call of the script failed: {text}" for text in _list_failed_calls(service, project, job)]
    if pull is not None:
        faults += _find_hidden_risks(browser, project, job, pull)
    return ReviewResult(case, outcome, risk, faults)


def _run_job(service: Service, project: Project, prompt: str, model: str, data: str = "") -> Job:
    created = service.desk.jobs.create(project, NewJob(prompt, model=model, data=data)).job
    return wait_for_end(service.desk, created, threading.Event())


def _describe_outcome(job: Job, pull: LocalPull | None) -> str:
    if pull is not None:
        return "draft" if pull.draft else "ready"
    return "refused" if job.reason is Reason.PUBLISH_REFUSED else "not published"


def _list_failed_calls(service: Service, project: Project, job: Job) -> list[str]:
    _, events = service.desk.jobs.list_events(project.id, job.id)
    calls = [event.data for event in events if event.kind == EventKind.TOOL and event.data["tool"] != "finish"]
    return [call["result"] for call in calls if not call["ok"]]


def _compare_risks(case: ReviewCase, risk: dict[str, list[str]]) -> Iterator[str]:
    expected = case.expected.risk
    for kind, part in expected.items():
        if not any(part in text for text in risk.get(kind, ())):
            yield f"no {kind} says “{part}”"
    for kind in risk.keys() - expected.keys():
        yield f"{kind} was not expected: {risk[kind][0]}"


def _find_hidden_risks(browser: httpx.Client, project: Project, job: Job, pull: LocalPull) -> Iterator[str]:
    """Yields the places that do not show a risk without a click."""
    job_page = browser.get(f"/projects/{project.id}/jobs/{job.id}").text
    review_page = browser.get(f"/projects/{project.id}/pulls/{pull.number}").text
    places = {
        "the pull request's text": FOLDED_PATTERN.sub("", pull.body),
        "the job's page": _read_page(job_page),
        "the review page": _read_page(review_page),
    }
    for place, text in places.items():
        for each in job.risk:
            if _to_words(each.text) not in _to_words(text):
                yield f"{place} does not show: {each.text}"
    queue = _to_words(_read_page(browser.get("/queue", params={"project": project.id}).text))
    for each in job.risk:
        if _to_words(each.kind.label.casefold()) not in queue.casefold():
            yield f"the review queue does not say: {each.kind.label}"


def _read_page(html: str) -> str:
    """Returns the text of a page without what is folded."""
    return unescape(TAG_PATTERN.sub("", FOLDED_PATTERN.sub("", html)))


def _to_words(text: str) -> str:
    """Returns the letters and digits of a text, so that markup and invisible characters do not matter."""
    return " ".join(re.findall(r"\w+", text.replace("\u200b", "")))


def render_reviews(results: Sequence[ReviewResult]) -> str:
    rows = [
        (
            result.case.name,
            result.outcome,
            ", ".join(kind.replace("_", " ") for kind in result.risk) or "–",
            "; ".join(result.faults) or "as expected",
        )
        for result in results
    ]
    return render_table(("case", "outcome", "risks", "verdict"), rows) + "\n"
