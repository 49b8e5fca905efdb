"""The report of findings for a model and for a client."""

import json

from copydesk.jobs.checks import RULES, CheckReport, Finding, format_for_api, format_for_model


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


def test_api_report_has_one_entry_per_rule() -> None:
    data = format_for_api(CheckReport(_make_findings(25), _make_findings(2, "anchor")))
    assert [entry["name"] for entry in data] == list(RULES)
    by_name = {entry["name"]: entry for entry in data}
    assert by_name["link"]["status"] == "failed"
    assert by_name["link"]["introduced"] == 25
    assert len(by_name["link"]["findings"]) == 20
    assert by_name["link"]["findings"][0] == {
        "path": "docs/a.md",
        "line": 1,
        "message": "The link to `1.md` is broken.",
    }
    assert by_name["anchor"] == {"name": "anchor", "status": "passed", "introduced": 0, "old": 2, "findings": []}
    assert json.loads(json.dumps(data)) == data


def test_disabled_rule_is_not_listed_as_passed() -> None:
    assert "orphan" not in {entry["name"] for entry in format_for_api(CheckReport(), ignored=["orphan"])}
