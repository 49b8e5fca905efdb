"""Prose and code are distinguished character by character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.pages.lines import split_lines
from copydesk.jobs.pages.parsing.prose import find_code_lines, mask_non_prose


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


def test_indented_code_at_the_top_is_code() -> None:
    assert mask_non_prose("a.md", "    code\n\ntext") == "        \n\ntext"


def test_indented_fence_is_code_in_mdx_which_has_no_other_indented_code() -> None:
    body = "Text.\n\n    ```bash\n    acme run\n    ```\n\n    Prose.\n"
    assert find_code_lines("a.mdx", body) == {3, 4, 5}
    assert find_code_lines("a.md", body) == set()
