"""Summaries and descriptions are rendered as harmless HTML. What hostile ones contain neither runs nor loads."""

import re
import time
from html.parser import HTMLParser

import pytest

from copydesk.jobs.publish.pull_body import PullRequestReport, Round, remove_risks, render_pull_body
from copydesk.jobs.risk import Risk, RiskKind
from copydesk.web.responses.markdown import ALLOWED_TAGS, HEADING_CLASSES, render_markdown
from tests.support.jobs import make_job
from tests.web.dashboard.jobs.test_page_preview import ATTACKS

SAFE_REL = "nofollow noopener noreferrer"


class HarmlessDescription(HTMLParser):
    """Fails on every element and attribute that a description must not contain."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED_TAGS, tag
        given = dict(attrs)
        if tag == "a":
            assert given.keys() <= {"href", "rel"}, attrs
            assert given["rel"] == SAFE_REL
            assert re.match("https?://", given.get("href") or "https://"), attrs
        elif tag == "p":
            assert given.keys() <= {"class"}, attrs
            assert given.get("class", "h1") in HEADING_CLASSES
        else:
            assert not given, attrs

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def render(text: str, *, folds: bool = False) -> str:
    html = render_markdown(text, folds=folds)
    HarmlessDescription(convert_charrefs=True).feed(html)
    return html


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize(
    "text", [*ATTACKS, "[x](//evil.example)", "[x](/sign-out)", "<a href=https://evil.example>x</a>"]
)
def test_hostile_text_is_harmless(text: str, folds: bool) -> None:
    render(text, folds=folds)
    render(f"- > {text}\n\n1. {text}", folds=folds)


def test_markdown_is_shown_as_it_is_meant() -> None:
    html = render("## Done\n\nThe flag `--dry-run` is **new**;\nsee [it](https://example.org/x).\n\n- one\n- two\n")
    assert html == (
        '<p class="h2">Done</p>\n<p>The flag <code>--dry-run</code> is <strong>new</strong>;<br>\n'
        f'see <a href="https://example.org/x" rel="{SAFE_REL}">it</a>.</p>\n'
        "<ul>\n<li>one</li>\n<li>two</li>\n</ul>"
    )


def test_html_and_images_are_shown_as_text() -> None:
    html = render("Use <b>bold</b> ![a pixel](https://evil.example/p.gif)\n\n<div>\nx\n</div>\n")
    assert "&lt;b&gt;bold&lt;/b&gt; Image: a pixel" in html
    assert "&lt;div&gt;<br>x<br>&lt;/div&gt;" in html
    assert "evil.example" not in html


def test_links_within_the_service_and_to_other_schemes_lead_nowhere() -> None:
    html = render("[a](/sign-out) [b](//evil.example) [c](mailto:x@example.org) [d](docs/a.md)")
    assert "href" not in html


def test_model_cannot_fold_its_text() -> None:
    text = "<details><summary>More</summary>\n\nHidden.\n\n</details>"
    assert "<details" not in render(text)
    report = PullRequestReport(rounds=[Round(summary=text, requested_at=0)])
    body = render_pull_body(make_job(), report, "https://desk.example/job")
    html = render(body, folds=True)
    assert html.count("<details>") == html.count("</details>") == 1
    assert html.index("Hidden.") < html.index("<details><summary>How this change came about</summary>")


def test_description_does_not_repeat_the_risks_that_the_page_shows_above_it() -> None:
    risks = [Risk(RiskKind.OBJECTION, "It is wrong."), Risk(RiskKind.UNSURE, "Whether it is so.")]
    report = PullRequestReport(rounds=[Round(summary="It was made.", requested_at=0)], risks=risks)
    body = render_pull_body(make_job(), report, "https://desk.example/job")
    assert remove_risks(body, risks).startswith("It was made.")
    assert remove_risks(body, risks[:1]) == body, "the risks of another run are shown"


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "> " * 30_000, "**a" * 20_000, "- " * 30_000, "<a " * 20_000, "`" * 60_000]
)
def test_hostile_description_is_rendered_quickly(text: str) -> None:
    begun = time.process_time()
    render(text)
    assert time.process_time() - begun < 1
