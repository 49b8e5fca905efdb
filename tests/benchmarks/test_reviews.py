"""What a reviewer is told: each planted fault is in the risk summary, in every place, and no good change is a draft."""

import pytest

from benchmarks.agent.review_cases import load_review_cases
from benchmarks.agent.review_runner import run_review_cases

pytestmark = pytest.mark.deep

MIN_FAULTS, MIN_GOOD_CHANGES = 15, 14


def test_every_planted_fault_is_told_and_a_good_change_is_ready() -> None:
    results = list(run_review_cases(load_review_cases()))
    assert {result.case.name: result.faults for result in results if result.faults} == {}


def test_there_are_fifteen_faulty_and_fourteen_good_changes() -> None:
    faults, good = load_review_cases(only=["faults"]), load_review_cases(only=["good"])
    assert len(faults) >= MIN_FAULTS
    assert len(good) >= MIN_GOOD_CHANGES
    assert {case.expected.outcome for case in good} == {"ready"}
    assert all(case.expected.risk or case.expected.outcome == "refused" for case in faults)


def test_a_wrong_expectation_is_noticed() -> None:
    [case] = load_review_cases(only=["file-that-browsers-execute"])
    wrong = case.model_copy(update={"expected": case.expected.model_copy(update={"outcome": "ready", "risk": {}})})
    [result] = run_review_cases([wrong])
    assert any(fault.startswith("draft") for fault in result.faults)
    assert any("executed_file was not expected" in fault for fault in result.faults)
