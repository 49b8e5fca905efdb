"""The risks of a change: one list decides draft or ready and what is shown first, and a resumed run has the same."""

from pathlib import Path

import pytest

from copydesk.jobs.agent.evidence import Evidence, EvidenceSource
from copydesk.jobs.job import JobObjection, JobSecondLook
from copydesk.jobs.publish.guard.executed_files import ExecutedFile
from copydesk.jobs.publish.pull_body import PullRequestReport, Round, render_pull_body
from copydesk.jobs.risk import Risk, RiskKind, needs_draft, summarize_risks
from copydesk.jobs.storage.job_events import describe_job
from copydesk.jobs.workflow.isolation.tasks import ChangeNotes
from copydesk.jobs.workflow.publication import risk_summary
from copydesk.jobs.workflow.publication.risk_summary import JudgedChange, list_risks, merge_unsure_points
from copydesk.jobs.workflow.review import IntendedFinding, ReviewResult
from copydesk.jobs.workspace.patches import FilePatch
from tests.crash.harness import open_case
from tests.support.jobs import make_job
from tests.support.scripted_model import calls

FILE = FilePatch("docs/a.md", "modified", None, 1, 1, b"")
EMPTY = JudgedChange([FILE], ReviewResult(checks=[]), ChangeNotes([], [], [], []), [], None, [], False)
READY = {RiskKind.PLEASE_CHECK, RiskKind.UNSURE, RiskKind.NOT_JUDGED}


def judge_everything() -> JudgedChange:
    entry = {"name": "unknown-name", "status": "not_judged", "judged": 0, "introduced": 0, "old": 0, "findings": []}
    name = {"path": "docs/a.md", "line": 9, "message": "`max_size` occurs nowhere else."}
    source = EvidenceSource(repository="api", commit="0" * 40, path="cli.py", lines="12")
    cited = Evidence(path="docs/a.md", line=4, statement="It waits.", source=source, quote="wait()", verified=True)
    refuted = cited.model_copy(update={"statement": "It runs.", "verified": False, "problem": "it does not say so"})
    excused = IntendedFinding(id="00000000", path="docs/a.md", line=2, message="Broken.", reason="It is meant.")
    return JudgedChange(
        files=[FILE],
        review=ReviewResult(
            checks=[{**entry, "reason": "the page is too large", "pleaseCheck": [name]}],
            findings=["docs/a.md:3 The link is broken.", "The check command failed with status 1.\nLong output"],
            intended=[excused],
        ),
        notes=ChangeNotes([ExecutedFile("x.js", "run by readers' browsers")], [], ["/old"], []),
        evidence=[cited, refuted],
        second_look=JobSecondLook(
            model="m", total=2, objections=(JobObjection(path="docs/a.md", line=0, text="Wrong.", answer="No."),)
        ),
        unsure=["Whether it is so."],
        has_contexts=True,
    )


def test_everything_that_a_reviewer_must_look_at_is_listed_once_and_the_gravest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(risk_summary, "describe_missing_evidence", lambda *_: "No evidence was given.")
    assert [(risk.kind.value, risk.text) for risk in list_risks(judge_everything())] == [
        ("failed_check", "docs/a.md:3 The link is broken."),
        ("failed_check", "The check command failed with status 1."),
        ("intended", "docs/a.md:2 Broken. Intended: It is meant."),
        ("refuted_evidence", "docs/a.md:4 It runs. (api: cli.py, line 12: it does not say so)"),
        ("missing_evidence", "No evidence was given."),
        ("objection", "docs/a.md Wrong. Answer: No."),
        ("vanished_address", "`/old` no longer exists, and nothing redirects from it."),
        ("executed_file", "`x.js`: run by readers' browsers"),
        ("please_check", "docs/a.md:9 `max_size` occurs nowhere else."),
        ("unsure", "Whether it is so."),
        ("not_judged", "names that exist nowhere: the page is too large"),
    ]


@pytest.mark.parametrize("kind", list(RiskKind))
def test_everything_but_doubts_makes_a_draft(kind: RiskKind) -> None:
    assert needs_draft([Risk(kind, "x")]) is (kind not in READY)


def test_change_without_risks_has_an_empty_list() -> None:
    assert list_risks(EMPTY) == []
    assert not needs_draft([])


def test_second_look_that_was_not_taken_is_something_that_was_not_judged() -> None:
    look = JobSecondLook(model="m", note="The model did not answer.")
    assert list_risks(EMPTY._replace(second_look=look)) == [
        Risk(RiskKind.NOT_JUDGED, "second look: The model did not answer.")
    ]


def test_many_risks_of_one_kind_hide_no_other_kind() -> None:
    findings = [f"docs/a.md:{number} Broken." for number in range(500)]
    notes = ChangeNotes([ExecutedFile("x.js", "run by the build")], [], [], [])
    risks = list_risks(EMPTY._replace(review=ReviewResult(checks=[], findings=findings), notes=notes))
    assert len(risks) == 22
    assert risks[20].text == "… and 480 more"
    assert risks[21].kind is RiskKind.EXECUTED_FILE
    job = make_job(risk=risks)
    assert len(describe_job(job)["risk"]) == 20


def test_kinds_are_told_in_words_and_counted() -> None:
    risks = [Risk(RiskKind.UNSURE, "a"), Risk(RiskKind.FAILED_CHECK, "b"), Risk(RiskKind.FAILED_CHECK, "c")]
    assert summarize_risks(risks) == "failed check (2), unsure"


def test_point_that_a_prompt_quotes_is_answered_and_the_others_stay_open() -> None:
    earlier = [Risk(RiskKind.UNSURE, "The title."), Risk(RiskKind.UNSURE, "The word."), Risk(RiskKind.INTENDED, "x")]
    assert merge_unsure_points(earlier, ["Resolve this: The title."], ["New."]) == ["New.", "The word."]


def test_unsure_points_hide_nothing_and_are_open_once() -> None:
    point = "Whether \u202ethis\u202c is\x1b[2J \U000e0041so."
    shown = "Whether this is [2J so."
    assert merge_unsure_points([Risk(RiskKind.UNSURE, shown)], [], [point]) == [shown]
    assert Risk(RiskKind.UNSURE, shown) in list_risks(judge_everything()._replace(unsure=[point]))


def test_pull_request_begins_with_the_risks_and_folds_what_is_not_for_the_reviewer_into_one_line() -> None:
    report = PullRequestReport(
        rounds=[Round(summary="Renamed the page.", requested_at=0, prompts=["Rename it"])],
        risks=[Risk(RiskKind.OBJECTION, "docs/a.md Wrong, says @ada."), Risk(RiskKind.UNSURE, "The title.")],
        files=[FILE],
        checks=["passed: link"],
        second_look=JobSecondLook(model="m"),
        instruction_files=["AGENTS.md"],
    )
    text = render_pull_body(make_job(id="job_1"), report, "https://desk.example/j")
    shown, _, folded = text.partition("<details>")
    assert shown.startswith("**Review first**\n\n- **objection:** docs/a.md Wrong, says @")
    assert "@ada" not in shown
    assert "- **unsure:** The title.\n\nRenamed the page.\n\n**Files**\n\n- `docs/a.md`" in shown
    assert shown.rstrip().endswith("modified, +1 −1"), "nothing else is shown"
    assert folded.startswith("<summary>How this change came about</summary>\n\n")
    for part in ("> Rename it", "passed: link", "**Second look**", "`AGENTS.md`", "Created by mechanic"):
        assert part in folded
    assert folded.endswith("\n\n</details>\n")


@pytest.mark.deep
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize("point", ["risk:before", "risk:recorded", "open:before"])
def test_resumed_run_publishes_the_same_risks(tmp_path: Path, database: str, point: str) -> None:
    write = ("write", {"path": "docs/x.js", "content": "let a = 1\n"})
    said = {"title": "T", "summary": "S", "unsure": "Whether it runs."}
    with open_case(database, tmp_path) as case:
        case.script = (calls(write), calls(("finish", said)))
        case.create()
        case.crash(point)
        case.recover()
        job = case.job
        assert (job.status, job.reason) == ("completed", None), job.message
        [pull] = case.desk.pulls.list_for_project(job.project_id)
        assert pull.draft
        assert [risk.kind for risk in job.risk] == [RiskKind.EXECUTED_FILE, RiskKind.UNSURE]
        assert pull.body.startswith("**Review first**\n\n- **executed file:** `docs/x.js`: ")
        assert "- **unsure:** Whether it runs.\n" in pull.body
