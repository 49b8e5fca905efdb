"""The page on scale contains the output of the planning benchmark."""

import sys
from pathlib import Path

import pytest

from benchmarks.load import planning

pytestmark = pytest.mark.deep

SCALE = Path(__file__).parents[2] / "docs/scale.md"


def test_documented_capacity_plan_matches_the_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["planning"])
    planning.main()
    assert capsys.readouterr().out in SCALE.read_text("utf-8")
