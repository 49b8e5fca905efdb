"""A missing program skips its tests by name, and fails them in CI unless the machine cannot have it."""

import pytest

from tests.support import missing_programs
from tests.support.missing_programs import Excuse
from tests.support.programs import skip_missing, summarize_skips


def test_a_missing_program_skips_the_test_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^Not installed: abacus\. Buy one\.$"):
        skip_missing("abacus", "Buy one.")


def test_missing_program_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="abacus is not installed, and CI must have it"):
        skip_missing("abacus", "Buy one.")


@pytest.mark.parametrize(("applies", "expected"), [(True, pytest.skip.Exception), (False, pytest.fail.Exception)])
def test_ci_excuses_only_programs_that_the_machine_cannot_have(
    monkeypatch: pytest.MonkeyPatch, applies: bool, expected: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(missing_programs, "EXCUSES", (Excuse("abacus", lambda: applies, "It is not made for this."),))
    with pytest.raises(expected):
        skip_missing("abacus", "Buy one.")


def test_summary_counts_skips_by_program() -> None:
    reasons = ["Skipped: Not installed: helm. Why", "Skipped: Not installed: abacus. Why", "Not installed: helm. Why"]
    assert summarize_skips(reasons) == "Skipped because not installed: abacus (1), helm (2)"
    assert summarize_skips(["Skipped: other C libraries have one heap"]) is None
