"""Commit messages and pull request texts, for any input of a model or a person."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Usage
from copydesk.jobs.pages.redirects import AddressChange
from copydesk.jobs.publish.closing_keywords import find_closed_issues
from copydesk.jobs.publish.forges.markers import MAX_FORGE_BODY_CHARS, wrap_in_markers
from copydesk.jobs.publish.guard.external_resources import ExternalResource, format_resources
from copydesk.jobs.publish.guard.hidden_characters import strip_hidden_characters
from copydesk.jobs.publish.messages import (
    ACTIVE_MARKUP_PATTERN,
    CLOSING_KEYWORD_PATTERN,
    ZERO_WIDTH_SPACE,
    build_commit_message,
    neutralize_markup,
    neutralize_plainly,
    to_one_line,
)
from copydesk.jobs.publish.plain_text import choose_title, to_plain_body
from copydesk.jobs.publish.pull_body import PullRequestReport, Round, render_pull_body
from copydesk.jobs.risk import Risk, RiskKind
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
        rounds=[
            Round(summary="Renamed the page.", requested_at=0, prompts=["Rename a\nto b"], base_note="main moved.")
        ],
        risks=[
            Risk(RiskKind.FAILED_CHECK, "docs/b.md:3 leads nowhere"),
            Risk(RiskKind.UNSURE, "Whether the old address is still used."),
            Risk(RiskKind.UNSURE, "Whether @ada agrees."),
        ],
        files=[FilePatch("docs/b`.md", "renamed", "docs/a.md", 3, 1, b"")],
        checks=["links: passed"],
        fixed=["docs/c.md:7 The link to `d.md` is broken."],
        new_addresses=[AddressChange("/a", "/b"), AddressChange(None, "/new")],
        external_urls=["https://example.org/x (docs/b.md:9)"],
        usage=Usage(requests=3, input_tokens=1200, output_tokens=34, cost_usd=0.0123),
    )
    text = render_pull_body(make_job(id="job_1", model="openai:x"), told, "https://desk.example/j")
    for said in (
        "Renamed the page.",
        "**Review first**\n\n- **failed check:** docs/b.md:3 leads nowhere\n- **unsure:** Whether the old address",
        "**Fixed** (problems that existed before this change):\n\n- docs/c.md:7 The link to `d.md` is broken.",
        "**New addresses**\n\n- `/a` → `/b`\n- `/new`, a new page",
        "**Note:** main moved.",
        "- `` docs/b`.md `` renamed from `docs/a.md`, +3 −1",
        "- links: passed",
        "- https://example.org/x (docs/b.md:9)",
        "> Rename a\n> to b",
        "Created by openai:x (3 requests, 1,234 tokens, $0.01) in job [`job_1`](https://desk.example/j).",
    ):
        assert said in text
    assert "@ada" not in text


def render_many_addresses(count: int, address: str = "https://example.org/{} (link, docs/a.md:1)") -> str:
    told = PullRequestReport(
        [Round(summary="Words.", requested_at=0)], external_urls=[address.format(n) for n in range(count)]
    )
    return render_pull_body(make_job(id="job_1"), told, "https://desk.example/job_1")


def test_all_new_urls_are_listed_and_long_lists_are_collapsed() -> None:
    text = render_many_addresses(150)
    assert all(f"- https://example.org/{n} (link" in text for n in range(150))
    before, urls, origin = text.split("<details>")
    assert "New external URLs" in before
    assert "150 URLs" in urls
    assert "Created by" in origin
    assert render_many_addresses(20).count("<details>") == 1


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


def test_all_rounds_are_told_short_and_newest_last() -> None:
    rounds = [
        Round(summary=f"Did thing {n}. {'x' * 9000}", requested_at=0, prompts=[f"Do {n}. " + "y" * 9000])
        for n in range(1, 4)
    ]
    text = render_pull_body(make_job(id="job_1"), PullRequestReport(rounds), "https://desk.example/j")
    summaries = [part for n in (1, 2, 3) for part in (f"**Round {n}**", f"Did thing {n}.")]
    requests = [part for n in (1, 2, 3) for part in (f"**Request of round {n}**", f"> Do {n}.")]
    places = [text.index(part) for part in (*summaries, "<details>", *requests)]
    assert places == sorted(places)
    assert text.count("x") < 8000 < len(rounds[0].summary)
    assert text.count("y") < 1000


def test_many_rounds_stay_within_the_limit_of_forges() -> None:
    rounds = [
        Round(summary=f"Did thing {n}. " + "z" * 9000, requested_at=0, prompts=["Do it. " * 500]) for n in range(1, 201)
    ]
    text = render_pull_body(make_job(id="job_1"), PullRequestReport(rounds), "https://desk.example/j")
    assert len(text) < MAX_FORGE_BODY_CHARS - 20_000
    assert "Did thing 1." in text
    assert "Did thing 200." in text
    assert "Did thing 100." not in text
    assert "180 more rounds, which [the job](https://desk.example/j) shows" in text
    assert text.index("more rounds") < text.index("**Round 182**")


def test_markup_in_every_round_is_neutralized() -> None:
    rounds = [Round(summary="Thanks @ada, fixes #1. <img src=x>", requested_at=0, prompts=["Ask @bob </details>"])] * 2
    text = render_pull_body(make_job(id="job_1"), PullRequestReport(rounds), "https://desk.example/j")
    assert not [part for part in ("@ada", "@bob", "#1", "<img") if part in text]
    assert text.count("</details>") == 1
    assert text.endswith("</details>\n")


TEMPLATE = """<!-- Say what you did. -->
## Summary

Renames the page, because it moved.

## Screenshots

## Details
- [x] Links
- [ ] Changelog

```bash
# a comment
```
"""


@pytest.mark.parametrize(
    ("title", "summary", "subject", "body"),
    [
        ("Rename", "Why.", "Rename", "Why."),
        ("## Rename the page", "Why.", "Rename the page", "Why."),
        ("Rename", "# Rename\n\nWhy.", "Rename", "Why."),
        ("Rename", "**Summary**\n\nWhy.", "Rename", "Why."),
        ("Rename", "Summary\n=======\nWhy.", "Rename", "Why."),
        ("## Summary", "## Summary\n\nRenames the page. And more.", "Renames the page", "Renames the page. And more."),
        ("**What changed?**", "## What changed?", "What changed?", ""),
        ("Rename", "Why.\n\n## Risk ##\nNone.", "Rename", "Why.\n\nRisk\n\nNone."),
        ("C# guide", "#hashtag stays", "C# guide", "#hashtag stays"),
        (
            "Description",
            TEMPLATE,
            "Renames the page, because it moved",
            "Renames the page, because it moved.\n\nDetails\n\n- Links\n\n    # a comment",
        ),
    ],
)
def test_commit_message_has_a_plain_subject_and_body(title: str, summary: str, subject: str, body: str) -> None:
    message = build_commit_message(make_job(id="job_1"), Policy(), title, summary)
    assert message == "\n\n".join(filter(None, [subject, body, "Copydesk-Job: job_1"])) + "\n"


PROJECT_TEMPLATE = """<!-- Thanks! -->
## What does this change do?

## How was it tested?

### Checklist
- [ ] I have read the contributing guide
- [ ] The documentation builds

**Reviewers**
"""


def test_lines_of_the_repositorys_own_template_stay_out_of_commits() -> None:
    summary = """## What does this change do?
Corrects the **default** in [the guide](https://docs.example/guide).

---

## How was it tested?
With `mkdocs build`.

## Known limits
See [the list](limits.md).

### Checklist
- [x] I have read the contributing guide
- [x] The documentation builds
- [x] The links work

**Reviewers**
"""
    message = build_commit_message(make_job(id="job_1"), Policy(), "Correct it", summary, template=PROJECT_TEMPLATE)
    assert message == (
        "Correct it\n\nCorrects the default in the guide (https://docs.example/guide).\n\nWith `mkdocs build`.\n\n"
        "Known limits\n\nSee the list.\n\n- The links work\n\nCopydesk-Job: job_1\n"
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Thanks @ada and @acme/docs", "Thanks ada and acme/docs"),
        ("Fixes #12, closes acme/docs#3", "Fixes issue 12, closes acme/docs issue 3"),
        ("See issue #12, PR #3, GH-4 and !7", "See issue 12, PR 3, issue 4 and merge request 7"),
        ("Fixes https://github.com/a/b/issues/1", "Fixes, see https://github.com/a/b/issues/1"),
        ("Resolves: ABC-12 of ABC-12", "Resolves: ABC\N{NON-BREAKING HYPHEN}12 of ABC-12"),
        ("See ![pixel](https://tracker.example/p.gif)", "See [pixel](https://tracker.example/p.gif)"),
        (
            'A <img src="https://tracker.example/p.gif"> and <Note>',
            'A ‹img src="https://tracker.example/p.gif"› and ‹Note›',
        ),
        ("A <!-- hidden", "A ‹!-- hidden"),
        ("&#64;ada &amp; a & b", "& issue 64;ada & amp; a & b"),
        ("/approve\nthen /merge", "“/approve”\nthen /merge"),
        ("rand@0.8.5, C# and a@b.example, 5!", "rand@0.8.5, C# and a@b.example, 5!"),
        ("A [skip ci], a [CI skip], a [no ci] and [no word]", "A (skip ci), a (CI skip), a (no ci) and [no word]"),
        ("zero\u200bwidth\u2060 and \u202eturned", "zerowidth and turned"),
    ],
)
def test_commits_say_in_words_what_would_act_on_a_forge(text: str, plain: str) -> None:
    assert neutralize_plainly(text) == plain
    message = build_commit_message(make_job(id="job_1"), Policy(), "A title", f"Why.\n\n{text}")
    assert not [char for char in message if unicodedata.category(char) == "Cf"]


@given(st.text(st.sampled_from("@#!<>&`~/[]:;-\n a1Gghfix12GH-ABfixeshttps:issue"), max_size=60))
def test_no_active_markup_is_left_in_a_commit(text: str) -> None:
    plain = neutralize_plainly(text)
    assert not ACTIVE_MARKUP_PATTERN.search(plain)
    assert not CLOSING_KEYWORD_PATTERN.search(plain)
    assert neutralize_plainly(plain) == plain


CLOSINGS = [
    "Fixes #3279",
    "closes: #3279",
    "Resolves GH-12",
    "fixed acme/docs#12",
    "Closes https://github.com/acme/docs/issues/12",
    "Fixes #1, #2 and acme/docs#3",
    "Resolves ABC-12",
]


@pytest.mark.parametrize("phrase", CLOSINGS)
def test_closing_keyword_stays_whole_when_a_person_wrote_it(phrase: str) -> None:
    closed_issues = find_closed_issues([f"Correct the default. {phrase}.", "And another thing."])
    summary = f"Corrects the default.\n\n{phrase}. Thanks @ada, fixes #99."
    message = build_commit_message(make_job(), Policy(), f"Default ({phrase})", summary, closed_issues=closed_issues)
    assert message.count(phrase) == 2
    assert "#99" not in message
    latest = Round(summary=summary, prompts=[f"Do it. {phrase}"], requested_at=0, closed_issues=sorted(closed_issues))
    body = render_pull_body(make_job(), PullRequestReport([latest]), "https://desk.example/j")
    assert body.count(phrase) == 2
    assert "#99" not in body
    assert "@ada" not in body


@pytest.mark.parametrize("phrase", CLOSINGS)
@pytest.mark.parametrize("prompts", [["Correct it."], ["See #3279, GH-12."], ["> {}"], ["| {}"], ["Fixes #4"]])
def test_closing_keyword_of_a_model_or_page_does_not_act(phrase: str, prompts: list[str]) -> None:
    closed_issues = find_closed_issues(prompt.format(phrase) for prompt in prompts)
    message = build_commit_message(make_job(), Policy(), f"It {phrase}", phrase, closed_issues=closed_issues)
    assert phrase not in message
    assert not CLOSING_KEYWORD_PATTERN.search(message)
    assert phrase not in neutralize_markup(phrase, closed_issues)


def test_people_who_asked_are_co_authors_once_unless_the_project_does_not_want_that() -> None:
    ada, ben = "Ada <ada@example.org>", "Ben <ben@example.org>"
    policy = Policy(co_authors=(ada,))
    message = build_commit_message(make_job(id="job_1"), policy, "Title", "Why.", requesters=[ada, ben])
    assert message.endswith(f"\n\nCopydesk-Job: job_1\nCo-authored-by: {ada}\nCo-authored-by: {ben}\n")
    policy = Policy(credit_requesters=False)
    assert "Ben" not in build_commit_message(make_job(), policy, "Title", "Why.", requesters=[ben])


def test_fenced_code_in_a_list_stays_code() -> None:
    text = "- Run:\n  ```bash\n  pip install @acme/x # <Note>\n\n  ```\n- Then go on."
    assert neutralize_markup(text) == text
    outside = "- Run:\n  ```bash\n@ada\n  ```\n"
    assert "@ada" not in neutralize_markup(outside)


@given(st.text(alphabet="# \n=-`*_[]x<!>aS", max_size=300))
def test_any_text_becomes_a_plain_body(text: str) -> None:
    plain = to_plain_body(text)
    in_fences = "```" in text or "~~~" in text
    assert in_fences or not any(line.startswith("# ") for line in plain.splitlines())
    assert to_one_line(choose_title(text, text))
