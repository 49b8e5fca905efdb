"""Prose and code are distinguished character by character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.pages import front_matter
from copydesk.jobs.pages.headings import find_anchors, slugify
from copydesk.jobs.pages.lines import apply_edits, split_lines
from copydesk.jobs.pages.page_types import is_page, is_site_page
from copydesk.jobs.pages.prose import mask_non_prose


@pytest.mark.parametrize(
    ("path", "body", "shown"),
    [
        ("a.md", "a `b` c", "a     c"),
        ("a.md", r"a \`b\` c", r"a \`b\` c"),
        ("a.md", "a ``b ` c`` d ` e", "a           d ` e"),
        ("a.md", "a `b\n\nc` d", "a `b\n\nc` d"),
        ("a.md", "```\na\n````\nb", "   \n \n    \nb"),
        ("a.md", "````\na\n```\nb\n````", "    \n \n   \n \n    "),
        ("a.md", "~~~\n```\n~~~\nb", "   \n   \n   \nb"),
        ("a.md", "``` a`b\nc", "``` a`b\nc"),
        ("a.md", "x\n\n    code\n\ny", "x\n\n        \n\ny"),
        ("a.md", "- x\n\n    prose", "- x\n\n    prose"),
        ("a.mdx", "x\n\n    prose", "x\n\n    prose"),
        ("a.md", "a <!-- b\n\n```\n--> c", "a       \n\n   \n    c"),
        ("a.md", "`<!--` a `-->`", "       a      "),
        ("a.mdx", "a {/* b */} c", "a           c"),
        ("a.rst", "Say::\n\n  code\n\nprose ``x`` y", "Say::\n\n      \n\nprose       y"),
        ("a.rst", ".. note::\n   prose\n\n.. code:: sh\n   code", ".. note::\n   prose\n\n            \n       "),
        ("a.adoc", "a\n----\nb\n----\nc `d`", "a\n    \n \n    \nc    "),
    ],
)
def test_code_is_blanked_and_prose_is_kept(path: str, body: str, shown: str) -> None:
    assert mask_non_prose(path, body) == shown


MARKS = st.sampled_from(
    ["a", " ", "\n", "\r\n", "`", "```", "~~~", "<!--", "-->", "    ", "- ", "> ", "---\n", "\\", "<pre>", "::\n"]
)


@given(st.lists(MARKS, max_size=30).map("".join), st.sampled_from(["a.md", "a.mdx", "a.rst", "a.adoc", "a.txt"]))
def test_blanking_keeps_every_offset(body: str, path: str) -> None:
    shown = mask_non_prose(path, body)
    assert len(shown) == len(body)
    assert all(new in (old, " ") for old, new in zip(body, shown, strict=True))
    assert "".join(line.text + line.ending for line in split_lines(body)) == body


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("---\ntitle: A\n---\n", ("title",)),
        ("---\r\ntitle: A\r\nb: 1\r\n---", ("title", "b")),
        ("---\na: [\nb: 1\n---\n", ("a", "b")),
        ('+++\ntitle = "A"\n[menu]\nweight = 1\n+++\n', ("title", "weight")),
        ("---\n---\n", ()),
        ("---\n\nText\n\n---\n", None),
        ("\n---\ntitle: A\n---\n", None),
        ("---\ntitle: A\n", None),
        ("----\ntitle: A\n----\n", None),
    ],
)
def test_front_matter_must_be_at_the_top(body: str, keys: tuple[str, ...] | None) -> None:
    matter = front_matter.find_front_matter(body)
    assert (matter.keys if matter else None) == keys


def test_toml_front_matter_gets_no_yaml_field() -> None:
    assert front_matter.build_field_edit('+++\ntitle = "A"\n+++\n', "description", "x") is None


@given(
    st.text(min_size=1).filter(str.strip), st.sampled_from(["", "---\na: 1\n---\n", "---\r\na: 1\r\nt:\r\n---\r\nx"])
)
def test_added_field_is_read_back_unchanged(value: str, body: str) -> None:
    edit = front_matter.build_field_edit(body, "t", front_matter.quote_yaml(value))
    assert edit is not None
    matter = front_matter.find_front_matter(apply_edits(body, [edit]))
    assert matter is not None
    assert matter.fields is not None
    assert matter.fields["t"] == " ".join(value.split())


def test_anchors_are_generated_like_the_site_generators() -> None:
    body = "# A `b` & *c*!\n## Same\n## Same\n## Other {#own}\n\nSet\n---\n\n<a id='x'></a>\n```\n# no\n```\n"
    assert find_anchors(body, mask_non_prose("a.md", body)) == {"a-b--c", "same", "same-1", "own", "set", "x"}
    assert slugify("[Link](x.md) 1.2") == "link-12"


@pytest.mark.parametrize(
    ("path", "page", "site_page"),
    [
        ("docs/a.md", True, True),
        ("README.md", True, False),
        ("docs/README.md", True, True),
        ("docs/SUMMARY.md", True, False),
        ("docs/a.rst", True, False),
        ("snippets/a.mdx", True, False),
        ("requirements.txt", False, False),
        ("AGENTS.md", False, False),
        (".github/a.md", False, False),
        ("node_modules/x/README.md", False, False),
        ("a.py", False, False),
    ],
)
def test_pages_are_recognized_by_path(path: str, page: bool, site_page: bool) -> None:
    assert (is_page(path), is_site_page(path)) == (page, site_page)
