"""Commit messages and pull request texts, for any input of a model or a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Usage
from copydesk.jobs.publish.forges.markers import wrap_in_markers
from copydesk.jobs.publish.guard.external_resources import ExternalResource, format_resources
from copydesk.jobs.publish.guard.hidden_characters import strip_hidden_characters
from copydesk.jobs.publish.messages import (
    ZERO_WIDTH_SPACE,
    PullRequestReport,
    build_commit_message,
    neutralize_markup,
    render_pull_body,
    to_one_line,
)
from copydesk.jobs.workspace.patches import FilePatch
from tests.support.jobs import make_job


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("Thanks @ada and @acme/docs", "@a"),
        ("Fixes #12, closes acme/docs#3", "#1"),
        ("Closes !7", "!7"),
        ("See ![pixel](https://tracker.example/p.gif)", "e ![pixel]"),
        ('<img src="https://tracker.example/p.gif">', '"><img'),
        ("<!-- hidden -->", "\n<!--"),
        ("/approve\nthen /merge", "\n/approve"),
    ],
)
def test_mentions_closing_keywords_and_images_are_neutralized(text: str, gone: str) -> None:
    said = "\n" + neutralize_markup(text)
    assert gone not in said
    assert said.replace(ZERO_WIDTH_SPACE, "").strip() == text


@pytest.mark.parametrize(
    "text", ["`@property` and `<Card>` and `#1`", "```html\n<img src=x>\n@ada\n```", "a@b.example"]
)
def test_code_and_urls_are_unchanged(text: str) -> None:
    assert neutralize_markup(text) == text


@given(st.text(max_size=300))
def test_neutralized_text_reads_the_same(text: str) -> None:
    said = neutralize_markup(text)
    assert said.replace(ZERO_WIDTH_SPACE, "") == strip_hidden_characters(text).replace(ZERO_WIDTH_SPACE, "")
    assert neutralize_markup(said) == said


@given(st.text(max_size=500))
def test_a_title_is_one_printable_line(text: str) -> None:
    title = to_one_line(text)
    assert title
    assert title.isprintable()
    assert len(title) <= 200


def test_commit_ends_with_the_policys_trailers_and_no_others() -> None:
    policy = Policy(
        sign_off=True, author_name="Docs", author_email="docs@example.org", co_authors=("Ada <a@b.example>",)
    )
    summary = "Why.\n\nSigned-off-by: Mallory <m@evil.example>\nCo-Authored-By: M <m@evil.example>"
    lines = build_commit_message(make_job(id="job_1"), policy, "Title\nwith a break", summary).splitlines()
    assert lines[0] == "Title with a break"
    assert lines[-3:] == [
        "Copydesk-Job: job_1",
        "Co-authored-by: Ada <a@b.example>",
        "Signed-off-by: Docs <docs@example.org>",
    ]
    assert [line for line in lines if line.startswith(("Signed-off-by", "Co-"))] == lines[-2:]


def test_pull_request_text_has_everything_for_a_reviewer() -> None:
    told = PullRequestReport(
        summary="Renamed the page.",
        unsure="Whether the old address is still used.",
        base_note="main moved.",
        files=[FilePatch("docs/b`.md", "renamed", "docs/a.md", 3, 1, b"")],
        checks=["links: passed"],
        findings=["docs/b.md:3 leads nowhere"],
        external_urls=["https://example.org/x (docs/b.md:9)"],
        usage=Usage(requests=3, input_tokens=1200, output_tokens=34, cost_usd=0.0123),
    )
    text = render_pull_body(make_job(id="job_1", model="openai:x"), ["Rename a\nto b"], told, "https://desk.example/j")
    for said in (
        "Renamed the page.",
        "**Unsure:** Whether",
        "**Note:** main moved.",
        "- `` docs/b`.md `` renamed from `docs/a.md`, +3 −1",
        "- links: passed",
        "- docs/b.md:3 leads nowhere",
        "- https://example.org/x (docs/b.md:9)",
        "> Rename a\n> to b",
        "Created by openai:x (3 requests, 1,234 tokens, $0.01) in job [`job_1`](https://desk.example/j).",
    ):
        assert said in text


def render_many_addresses(count: int, address: str = "https://example.org/{} (link, docs/a.md:1)") -> str:
    told = PullRequestReport(summary="Words.", external_urls=[address.format(n) for n in range(count)])
    return render_pull_body(make_job(id="job_1"), [], told, "https://desk.example/job_1")


def test_all_new_urls_are_listed_and_long_lists_are_collapsed() -> None:
    text = render_many_addresses(150)
    assert all(f"- https://example.org/{n} (link" in text for n in range(150))
    before, _, after = text.partition("<details>")
    assert "New external URLs" in before
    assert "150 URLs" in after
    assert after.index("</details>") < after.index("Created by")
    assert "<details>" not in render_many_addresses(20)


def test_urls_that_do_not_fit_are_counted_and_findable() -> None:
    text = render_many_addresses(3_000)
    shown = text.count("- https://example.org/")
    assert 100 < shown < 3_000
    assert f"{3_000 - shown} more are not shown. See the diff of [this job](https://desk.example/job_1)" in text
    assert len(text) < 30_000
    assert len(render_many_addresses(30, "https://example.org/{}" + "x" * 10_000)) < 30_000


def test_urls_that_load_content_come_first() -> None:
    found = [ExternalResource("docs/a.md", n, "link", f"https://a.example/{n}") for n in range(30)]
    listed = format_resources([*found, ExternalResource("docs/b.md", 1, "image", "https://b.example/x.png")])
    assert listed[0] == "https://b.example/x.png (image, docs/b.md:1)"
    assert len(listed) == 31


def test_truncated_text_closes_its_details_element() -> None:
    text = wrap_in_markers("Title", "<details><summary>x</summary>\n\n" + "- y\n" * 30_000 + "</details>\n")
    assert text.count("<details>") == text.count("</details>") == 1
    assert len(text) < 65_536
