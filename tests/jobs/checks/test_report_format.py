"""The report of findings for a model and for a client."""

import json

from copydesk.jobs.checks import CheckReport, Finding, format_for_api, format_for_model
from copydesk.jobs.workflow.review import ReviewResult


def _make_findings(count: int, rule: str = "link") -> tuple[Finding, ...]:
    return tuple(
        Finding(rule, "docs/a.md", line, f"The link to `{line}.md` is broken.") for line in range(1, count + 1)
    )


def test_model_report_has_place_rule_message_and_count_of_old_findings() -> None:
    assert format_for_model(CheckReport(_make_findings(1), _make_findings(3))) == (
        "docs/a.md:1 [link] The link to `1.md` is broken. (id 25f06a68)\n"
        "3 problems existed before your changes. Do not change anything that you were not asked to change."
    )


def test_model_report_says_when_there_are_no_findings() -> None:
    assert format_for_model(CheckReport()) == "The checks found no problems in your changes."


def test_model_report_is_truncated() -> None:
    text = format_for_model(CheckReport(_make_findings(500)))
    assert len(text.splitlines()) == 41
    assert "460 more" in text
    assert len(format_for_model(CheckReport((Finding("link", "a.md", 1, "x" * 100_000),)))) < 1000


def test_api_report_has_an_entry_for_each_rule_that_judged_something() -> None:
    judged = {"link": 30, "image": 2, "mdx": 0}
    data = format_for_api(CheckReport(_make_findings(25), _make_findings(2, "image"), judged=judged))
    assert [entry["name"] for entry in data] == ["link", "image"]
    link, image = data
    assert (link["status"], link["introduced"], link["judged"]) == ("failed", 25, 30)
    assert len(link["findings"]) == 20
    assert link["findings"][0] == {"path": "docs/a.md", "line": 1, "message": "The link to `1.md` is broken."}
    assert image == {"name": "image", "status": "passed", "judged": 2, "introduced": 0, "old": 2, "findings": []}
    assert json.loads(json.dumps(data)) == data


def test_name_to_check_is_neither_passed_nor_a_finding() -> None:
    name = Finding("unknown-name", "docs/a.md", 3, "The setting `retry_backoff` occurs nowhere.")
    report = CheckReport(please_check=(name,), judged={"unknown-name": 4})
    [entry] = format_for_api(report)
    assert (entry["status"], entry["judged"], entry["introduced"], entry["findings"]) == ("not_judged", 4, 0, [])
    assert entry["pleaseCheck"] == [{"path": "docs/a.md", "line": 3, "message": name.message}]
    result = ReviewResult(checks=[entry])
    assert result.please_check == ["docs/a.md:3 The setting `retry_backoff` occurs nowhere."]
    assert result.summary_lines == ["please check: docs/a.md:3 The setting `retry_backoff` occurs nowhere."]
    assert "docs/a.md:3 The setting `retry_backoff` occurs nowhere." in format_for_model(report)


def test_summary_names_what_the_rules_judged() -> None:
    judged = {"link": 3, "anchor": 1, "unknown-name": 2, "fence": 1, "orphan": 0}
    result = ReviewResult(checks=format_for_api(CheckReport(judged=judged)))
    assert result.summary_lines == ["passed: 3 links, 1 anchor, 1 page with code fences, 2 names"]
    assert ReviewResult(checks=[]).summary_lines == ["nothing in this change to judge"]


def test_disabled_rule_is_not_listed_as_passed() -> None:
    assert "orphan" not in {
        entry["name"] for entry in format_for_api(CheckReport(judged={"orphan": 1}), ignored=["orphan"])
    }
