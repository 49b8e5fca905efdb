"""Precision and recall of the rules on agent strings of known classes, and the figures in the documentation."""

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from copydesk.analytics.classification.agent_table import AcceptRule, AgentEntry, Signer, SignerDomain, load_agent_table
from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.classification.crawler_list import load_crawler_list
from copydesk.analytics.classification.ip_ranges import IpRanges
from copydesk.analytics.page_view import VisitorClass

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/ai-traffic.md"
LEAST = {
    "human": (0.97, 0.95),
    "assistant": (0.95, 0.95),
    "search": (0.90, 0.75),
    "training": (0.84, 0.89),
    "other": (0.77, 0.90),
}
"""Minimum precision and recall; changes of the table must not go below."""


@cache
def load_labelled() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads((HERE / "agents/labelled.toml").read_text("utf-8"))["agents"]
    return rows


@cache
def count_verdicts() -> Counter[tuple[str, str]]:
    classifier = Classifier(load_agent_table(), IpRanges(), load_crawler_list())
    return Counter(
        (row["class"], str(classifier.classify(row["agent"], row.get("accept")).kind)) for row in load_labelled()
    )


def compute_precision_and_recall(kind: str) -> tuple[int, float, float]:
    right = count_verdicts()[kind, kind]
    said = sum(n for (_, verdict), n in count_verdicts().items() if verdict == kind)
    are = sum(n for (label, _), n in count_verdicts().items() if label == kind)
    return are, right / said, right / are


def test_labelled_set_is_large_and_every_entry_has_a_source() -> None:
    assert len(load_labelled()) >= 300
    assert all(row["from"] and row["what"] for row in load_labelled())
    assert len({(row["agent"], row.get("accept")) for row in load_labelled()}) == len(load_labelled())
    assert all(compute_precision_and_recall(kind)[0] >= 40 for kind in VisitorClass)


@pytest.mark.parametrize("kind", VisitorClass)
def test_precision_and_recall_reach_their_targets(kind: VisitorClass, record_property: Any) -> None:
    count, precision, recall = compute_precision_and_recall(kind)
    print(f"{kind:>10}: {count:3} strings, precision {precision:.3f}, recall {recall:.3f}")  # noqa: T201
    record_property("precision", precision)
    record_property("recall", recall)
    assert precision >= LEAST[kind][0]
    assert recall >= LEAST[kind][1]


def test_no_human_browser_is_classified_as_ai() -> None:
    assert count_verdicts()["human", "assistant"] == 0


def test_no_assistant_is_classified_as_human() -> None:
    assert count_verdicts()["assistant", "human"] == 0


@pytest.mark.parametrize("kind", VisitorClass)
def test_documentation_states_the_measured_figures(kind: VisitorClass) -> None:
    count, precision, recall = compute_precision_and_recall(kind)
    row = re.search(rf"^\| {kind} \|(.*)\|$", PAGE.read_text("utf-8"), re.M)
    assert row
    assert [cell.strip() for cell in row[1].split("|")] == [str(count), f"{precision:.3f}", f"{recall:.3f}"]


def test_every_row_of_the_table_has_a_source_and_a_date() -> None:
    rows: list[AgentEntry | AcceptRule | Signer | SignerDomain] = [
        *load_agent_table().entries,
        *load_agent_table().accept_rules,
        *load_agent_table().signers,
        *load_agent_table().signer_domains,
    ]
    for row in rows:
        assert re.match(r"https?://\S+\.\S+", row.source), row
        assert row.seen, row
        assert row.date.year >= 2024, row


def test_no_token_is_in_the_table_twice() -> None:
    tokens = Counter(row.token.lower() for row in load_agent_table().entries)
    assert [token for token, times in tokens.items() if times > 1] == []


def test_every_row_is_matched_by_its_own_token() -> None:
    for row in load_agent_table().entries:
        agent = f"{row.token}/1.0" + (" Electron/39.0" if row.match == "electron" else "")
        found = load_agent_table().find(agent)
        assert found
        assert found.token.lower() == row.token.lower() or load_agent_table().entries.index(
            found
        ) < load_agent_table().entries.index(row)
