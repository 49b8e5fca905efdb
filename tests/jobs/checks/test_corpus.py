"""Precision of the checks on repositories written for this purpose."""

import sys
from collections import Counter

import pytest

from copydesk.jobs.checks import RULES
from tests.jobs.checks.cases import CorpusCase, Expected, load_cases
from tests.jobs.conftest import MakeWorkspace

CASES = load_cases()
STATE_RULES = [rule for rule in RULES if rule != "unknown-name"]
"""The rules that judge a repository's state. An unknown name is only found in the lines that a change adds."""
VALID = [case for case in CASES if not case.expected]


def _find_findings(case: CorpusCase, workspace: MakeWorkspace) -> list[Expected]:
    return [(each.rule, each.path, each.line) for each in case.find_findings(workspace)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_corpus_repository_has_exactly_the_expected_findings(case: CorpusCase, workspace: MakeWorkspace) -> None:
    assert sorted(_find_findings(case, workspace)) == sorted(case.expected)


def test_every_rule_reaches_its_precision_and_recall(workspace: MakeWorkspace) -> None:
    right, wrong, missed = Counter[str](), Counter[str](), Counter[str]()
    for case in CASES:
        found, expected = Counter(_find_findings(case, workspace)), Counter(case.expected)
        right.update(rule for rule, _, _ in (found & expected).elements())
        wrong.update(rule for rule, _, _ in (found - expected).elements())
        missed.update(rule for rule, _, _ in (expected - found).elements())
    table = [f"{'rule':<14}{'expected':>9}{'precision':>11}{'recall':>8}"]
    for rule in STATE_RULES:
        precision = right[rule] / max(1, right[rule] + wrong[rule])
        recall = right[rule] / max(1, right[rule] + missed[rule])
        table.append(f"{rule:<14}{right[rule] + missed[rule]:>9}{precision:>11.2f}{recall:>8.2f}")
    sys.stdout.write("\n".join(["", *table, ""]))
    assert not wrong
    assert min(right[rule] / max(1, right[rule] + missed[rule]) for rule in STATE_RULES) >= 0.95


def test_corpus_covers_every_rule_and_has_clean_repositories() -> None:
    broken = Counter(rule for case in CASES for rule in {rule for rule, _, _ in case.expected})
    assert len(CASES) >= 60
    assert len(VALID) >= 20
    assert set(broken) == set(STATE_RULES)
    assert min(broken.values()) >= 3
    assert {case.settings["style"] for case in VALID} >= {"mintlify", "docusaurus", "mkdocs", "vitepress", "sphinx"}
