"""Lists what a reviewer must look at in a change. Draft or ready, and what is shown first, follow from this list."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

from copydesk.jobs.agent.evidence import Evidence, describe_missing_evidence
from copydesk.jobs.checks.findings import name_rule
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import JobObjection, JobSecondLook
from copydesk.jobs.publish.messages import to_one_line
from copydesk.jobs.risk import Risk, RiskKind
from copydesk.jobs.workflow.isolation.tasks import ChangeNotes
from copydesk.jobs.workflow.review import ReviewResult
from copydesk.jobs.workspace.patches import FilePatch

RISK_STEP = "risk"
MAX_RISKS_PER_KIND = 20
MAX_RISK_CHARS = 1000


class JudgedChange(NamedTuple):
    """The whole change of a job, after its last edit, with everything that was found out about it."""

    files: Sequence[FilePatch]
    review: ReviewResult
    notes: ChangeNotes
    evidence: Sequence[Evidence]
    second_look: JobSecondLook | None
    unsure: Sequence[str]
    """The points that the model was unsure of, as single lines."""
    has_contexts: bool
    """Whether the model could cite context repositories."""


def record_risks(journal: Journal, judged: JudgedChange) -> list[Risk]:
    """Lists the risks and stores them with the job. They are journaled, so that a resumed run publishes the same."""
    with journal.step(RISK_STEP, list[Risk]) as step:
        if not step.is_done:
            risks = list_risks(judged)
            step.save(risks, job={"risk": [asdict(risk) for risk in risks]})
    return step.result


def list_risks(judged: JudgedChange) -> list[Risk]:
    """Returns the risks of a change, the gravest kinds first: of each kind the first ones, and how many more."""
    texts: dict[RiskKind, list[str]] = {kind: [] for kind in RiskKind}
    for kind, text in _find_risks(judged):
        texts[kind].append(to_one_line(text, MAX_RISK_CHARS))
    return [Risk(kind, text) for kind in RiskKind for text in _shorten(texts[kind])]


def merge_unsure_points(earlier: Sequence[Risk], prompts: Sequence[str], points: Sequence[str]) -> list[str]:
    """Returns the open points of all runs, newest first. A point that a prompt of this run quotes is answered."""
    requests = "\n".join(prompts)
    still_open = [risk.text for risk in earlier if risk.kind is RiskKind.UNSURE and risk.text not in requests]
    new = (to_one_line(point, MAX_RISK_CHARS) for point in points)
    return list(dict.fromkeys([*new, *still_open]))[:MAX_RISKS_PER_KIND]


def _shorten(texts: Sequence[str]) -> list[str]:
    shown = list(dict.fromkeys(texts))
    omitted = len(shown) - MAX_RISKS_PER_KIND
    return [*shown[:MAX_RISKS_PER_KIND], f"… and {omitted} more"] if omitted > 0 else shown


def _find_risks(judged: JudgedChange) -> Iterator[tuple[RiskKind, str]]:
    review = judged.review
    yield from ((RiskKind.FAILED_CHECK, text.partition("\n")[0]) for text in review.findings)
    yield from ((RiskKind.INTENDED, each.text) for each in review.intended)
    yield from ((RiskKind.REFUTED_EVIDENCE, _describe_refuted(each)) for each in judged.evidence if not each.verified)
    if missing := describe_missing_evidence(judged.files, judged.has_contexts, judged.evidence):
        yield RiskKind.MISSING_EVIDENCE, missing
    look = judged.second_look
    yield from ((RiskKind.OBJECTION, _describe_objection(each)) for each in (look.objections if look else ()))
    for address in judged.notes.vanished_addresses:
        yield RiskKind.VANISHED_ADDRESS, f"`{address}` no longer exists, and nothing redirects from it."
    yield from ((RiskKind.EXECUTED_FILE, f"`{file.path}`: {file.reason}") for file in judged.notes.executed_files)
    yield from ((RiskKind.PLEASE_CHECK, text) for text in review.please_check)
    yield from ((RiskKind.UNSURE, point) for point in judged.unsure)
    for entry in review.checks:
        if entry.get("reason"):
            yield RiskKind.NOT_JUDGED, f"{name_rule(entry['name'])}: {entry['reason']}"
    if look and look.note:
        yield RiskKind.NOT_JUDGED, f"second look: {look.note}"


def _describe_refuted(evidence: Evidence) -> str:
    statement = f"{evidence.path}:{evidence.line} {evidence.statement}"
    return f"{statement} ({evidence.source.place}: {evidence.problem})"


def _describe_objection(objection: JobObjection) -> str:
    place = f"{objection.path}:{objection.line}" if objection.line else objection.path
    answer = f" Answer: {objection.answer}" if objection.answer else ""
    return f"{place} {objection.text}{answer}"
