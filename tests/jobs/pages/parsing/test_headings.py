"""Headings get the anchors that each generator gives them."""

import pytest

from copydesk.jobs.pages.parsing.headings import SLUGIFIERS, find_headings, slugify_github
from copydesk.jobs.pages.parsing.page_parser import parse_page
from copydesk.jobs.pages.parsing.prose import mask_non_prose
from copydesk.jobs.pages.site.anchors import PageAnchors


def test_repeated_headings_get_numbered_anchors() -> None:
    body = "# A `b` & *c*!\n## Same\n## Same\n## Other {#own}\n\nSet\n---\n\n```\n# no\n```\n"
    headings = find_headings(body, mask_non_prose("a.md", body))
    assert [heading.anchor for heading in headings] == ["a-b--c", "same", "same-1", "own", "set"]


def test_page_has_the_anchors_of_headings_and_ids() -> None:
    body = b"# Same\n## Same\n\nTitle\n=\n\n<a id='x'></a> <a id=y></a>\n\nText {: #z }\n\n(label)=\n# Two {#own}\n"
    anchors = PageAnchors(None, parse_page(".md", body)).exact_anchors
    assert set(anchors) == {"same", "same-1", "title", "x", "y", "z", "label", "own"}


@pytest.mark.parametrize(
    ("heading", "github", "mkdocs", "vitepress"),
    [
        ("Install it", "install-it", "install-it", "install-it"),
        ("[Link](x.md) 1.2", "link-12", "link-12", "link-1-2"),
        ("_foo_ bar", "foo-bar", "foo-bar", "foo-bar"),
        ("snake_case _x_", "snake_case-x", "snake_case-x", "snake-case-x"),
        ("a  b", "a--b", "a-b", "a-b"),
        ("Café", "café", "cafe", "cafe\u0301"),
        ("1 step", "1-step", "1-step", "_1-step"),
    ],
)
def test_each_generator_has_its_own_anchors(heading: str, github: str, mkdocs: str, vitepress: str) -> None:
    assert slugify_github(heading) == SLUGIFIERS["docusaurus"](heading) == github
    assert SLUGIFIERS["mkdocs"](heading) == mkdocs
    assert SLUGIFIERS["vitepress"](heading) == vitepress
