"""A diff contains only intended changes: it does not re-wrap, restyle or re-encode other lines or rewrite pages."""

import re
import textwrap
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.workspace.edit_scope import MAX_REFORMATTED_LINES, explain_overreach
from copydesk.jobs.workspace.workspace import Workspace, short_hash
from tests.jobs.conftest import MakeWorkspace
from tests.support.cpu_budget import limit_cpu

PAGE = """\
---
title: Install
---

# Install

Copydesk runs on Linux, macOS and Windows. It needs Python, a folder to write to, and
some 60 MB of memory. Nothing else has to be installed, and no account is needed before
you see it work on your own machine.

* Get the package: `pip install copydesk`
* Start it: "copydesk serve"
* Open the page it names

1. First
2. Second

| Setting | Default | Meaning |
|---------|---------|---------|
| data | ./data | the folder |
| port | 8080 | where it listens |
| model | mechanic | who does the work |

```sh
copydesk demo
copydesk serve
```

The café is open – “always”, they say. Its naïve owner doesn't mind.

    indented code
    stays as it is

## Next steps

Read the [guide](guide.md), then write to us. We answer within a day, and sooner on days
when the weather is bad.
"""
TWICE = PAGE + "\n" + PAGE


def check_edit(new: str, old: str = PAGE, **options: bool) -> str | None:
    return explain_overreach(old.encode(), new.encode(), **options)


def rewrap(text: str, width: int = 60) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(textwrap.fill(p, width) if re.match(r"[A-Z]\w+ .*\n", p) else p for p in paragraphs)


RENORMALISED: dict[str, Callable[[str], str]] = {
    "wrapped anew": rewrap,
    "unwrapped": lambda text: rewrap(text, 10_000),
    "line endings": lambda text: text.replace("\n", "\r\n"),
    "other bullets": lambda text: re.sub(r"^\* ", "- ", text, flags=re.M),
    "trailing spaces": lambda text: re.sub(r"(?<=\S)$", " ", text, flags=re.M),
    "indented": lambda text: re.sub(r"^(?=\S)", "  ", text, flags=re.M),
    "tabs": lambda text: text.replace("    ", "\t").replace(" | ", "\t|\t"),
    "quotes and dashes": lambda text: text.translate(str.maketrans("“”–'*", '""-’-')),
    "decomposed letters and endings": lambda text: unicodedata.normalize("NFD", text).replace("\n", " \n"),
    "set tables": lambda text: re.sub(r"^\|.*$", lambda row: row.group().replace(" |", "    |"), text, flags=re.M),
    "blank lines": lambda text: text.replace("\n\n", "\n\n\n"),
}  # fmt: skip


@pytest.mark.parametrize("how", RENORMALISED)
def test_pure_reformatting_is_always_refused(how: str) -> None:
    assert check_edit(RENORMALISED[how](TWICE), TWICE)
    assert check_edit(RENORMALISED[how](TWICE), TWICE, allow_rewrite=True)


@pytest.mark.parametrize("how", RENORMALISED)
def test_reformatting_along_with_a_real_change_is_refused(how: str) -> None:
    refusal = check_edit(RENORMALISED[how](TWICE.replace("60 MB", "80 MB", 1)), TWICE)
    assert refusal
    assert "only reformats" in refusal
    assert "edit only lines whose meaning changes" in refusal


LEGITIMATE = {
    "a word everywhere": PAGE.replace("e", "E"),
    "a name everywhere": PAGE.replace("copydesk", "desk").replace("Copydesk", "Desk"),
    "a new section": PAGE.replace("## Next", "## Upgrade\n\nStop it, install again.\n\n* One\n* Two\n\n## Next"),
    "sections gone": PAGE[: PAGE.index("* Get")] + PAGE[PAGE.index("## Next") :],
    "a paragraph gone": PAGE.replace(PAGE[PAGE.index("The café") : PAGE.index("    indented")], ""),
    "a paragraph edited and wrapped": rewrap(PAGE[: PAGE.index("* Get")].replace("macOS and", "macOS, BSD and"), 70)
    + PAGE[PAGE.index("* Get") :],
    "a new column": re.sub(r"^\|(.*)\|$", lambda r: f"|{r[1]}| {'---' if '--' in r[1] else 'new'} |", PAGE, flags=re.M),
    "columns swapped": re.sub(r"^\| (\w+) \| (\S+) \|", r"| \2 | \1 |", PAGE, flags=re.M),
    "a cell, and the table set anew": re.sub(
        r"^\|.*$", lambda r: r.group().replace(" |", "   |"), PAGE.replace("8080", "18080-18099"), flags=re.M
    ),
    "items sorted": PAGE.replace("* Get the package: `pip install copydesk`\n", "").replace(
        "* Open the page it names\n", "* Open the page it names\n* Get the package: `pip install copydesk`\n"
    ),
    "wrapped in a tab": PAGE.replace(
        PAGE[PAGE.index("* Get") : PAGE.index("1. First")],
        '=== "Linux"\n\n' + textwrap.indent(PAGE[PAGE.index("* Get") : PAGE.index("1. First")], "    "),
    ),
    "a section quoted": PAGE.replace(
        PAGE[PAGE.index("## Next") :],
        "> New in 2.0\n>\n" + re.sub(r"^", "> ", PAGE[PAGE.index("## Next") : -1], flags=re.M) + "\n",
    ),
    "links to headings": re.sub(r"^(#+ .*)$", r"\1 {#here}", PAGE, flags=re.M),
    "heading levels": re.sub(r"^#", "##", PAGE, flags=re.M),
    "code in another language": re.sub(r"^copydesk", "docker run copydesk", PAGE, flags=re.M),
    "a list of steps": PAGE.replace("* Get", "1. Get").replace("* Start", "2. Start").replace("* Open", "3. Open"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEGITIMATE)
def test_ordinary_edits_are_accepted(what: str) -> None:
    assert LEGITIMATE[what] != PAGE
    assert check_edit(LEGITIMATE[what]) is None


def test_rewriting_a_page_needs_the_whole_flag() -> None:
    translated = re.sub(r"[A-Za-z]{3,}", lambda word: word.group()[::-1] + "a", PAGE)
    assert "'whole'" in (check_edit(translated) or "")
    assert check_edit(translated, allow_rewrite=True) is None
    assert check_edit("short\n", "an old one\n") is None


def test_byte_order_mark_is_kept() -> None:
    for old, new in ((b"\xef\xbb\xbfone\n", b"one\n"), (b"one\n", b"\xef\xbb\xbfone\n")):
        assert "byte-order" in (explain_overreach(old, new, allow_rewrite=True) or "")
    assert explain_overreach(b"\x00\x01", b"\x00\x02") is None


WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "one", "two", "three", "and", "not"]), min_size=4, max_size=14
)
LINE = st.one_of(WORDS.map(" ".join), st.just(""), WORDS.map(lambda w: "* " + " ".join(w)))
TEXT = st.lists(LINE, min_size=8, max_size=40)


@pytest.mark.deep
@given(TEXT, st.data())
def test_any_edit_of_a_few_lines_passes(lines: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(lines) - MAX_REFORMATTED_LINES))
    gone = data.draw(st.integers(0, MAX_REFORMATTED_LINES))
    new = data.draw(
        st.lists(
            st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), max_size=30),
            max_size=MAX_REFORMATTED_LINES,
        )
    )
    after = [*lines[:start], *new, *lines[start + gone :]]
    assert check_edit("\n".join(after) + "\n", "\n".join(lines) + "\n") is None


@pytest.mark.deep
@given(TEXT, st.sampled_from([" ", "\t", "  "]), st.booleans(), st.integers(0, 3))
def test_whitespace_changes_outside_the_edited_lines_are_refused(
    lines: list[str], space: str, before: bool, meant: int
) -> None:
    changed = [f"{space}{line}" if before else f"{line}{space}" for line in lines]
    assume(sum(1 for line in lines if line) > MAX_REFORMATTED_LINES + meant)
    for number in range(meant):
        changed[number] = "really something else"
    assume(not before or not meant)  # lines that move together with a new line above form one intended group
    assert check_edit("\n".join(changed) + "\n", "\n".join(lines) + "\n")


@pytest.mark.deep
@given(st.lists(WORDS.filter(lambda w: len(w) > 7), min_size=9, max_size=14), st.integers(12, 30))
def test_rewrapping_other_paragraphs_is_refused(paragraphs: list[list[str]], width: int) -> None:
    old = "\n\n".join("\n".join([" ".join(words[:4]), " ".join(words[4:])]) for words in paragraphs)
    new = "\n\n".join(textwrap.fill(" ".join(words), width) for words in paragraphs)
    edited = new.replace(paragraphs[0][0], "edited", 1)
    pairs = zip(old.split("\n\n")[1:], new.split("\n\n")[1:], strict=True)
    assume(sum(one != two for one, two in pairs) > MAX_REFORMATTED_LINES)
    assert check_edit(new + "\n", old + "\n")
    assert check_edit(edited + "\n", old + "\n")


def use_tool(workspace: Workspace, name: str, **arguments: Any) -> ToolResult:
    return Toolbox(workspace).call(ToolCall(id="1", name=name, arguments=arguments))


def test_tools_refuse_reformatting_and_leave_the_file_unchanged(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": TWICE.encode()})
    seen = short_hash(TWICE.encode())
    anew = rewrap(TWICE.replace("60 MB", "80 MB", 1))
    translated = re.sub(r"[A-Za-z]{3,}", lambda word: word.group()[::-1] + "a", TWICE)
    for result in (
        use_tool(docs, "write", path="a.md", hash=seen, content=anew),
        use_tool(docs, "write", path="a.md", hash=seen, content=translated),
        use_tool(docs, "edit", path="a.md", hash=seen, replacements=[{"old": TWICE, "new": anew}]),
        use_tool(docs, "edit", path="a.md", hash=seen, replacements=[{"old": TWICE, "new": translated}]),
    ):
        assert not result.ok
        assert docs.changes() == {}
    assert use_tool(docs, "write", path="a.md", hash=seen, content=translated, whole=True).ok
    assert use_tool(docs, "write", path="new.md", content=PAGE).ok


def test_reformatting_passes_with_a_reason(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": TWICE.encode(), "b.md": TWICE.encode()})
    seen = short_hash(TWICE.encode())
    anew = rewrap(TWICE)
    why = "The request says: wrap all paragraphs at 60 characters."
    assert not use_tool(docs, "write", path="a.md", hash=seen, content=anew, reformat=" ").ok
    assert use_tool(docs, "write", path="a.md", hash=seen, content=anew, reformat=why).ok
    pieces = [{"old": TWICE, "new": anew}]
    assert use_tool(docs, "edit", path="b.md", hash=seen, replacements=pieces, reformat=why).ok
    assert docs.read("a.md") == docs.read("b.md") == anew.encode()


@pytest.mark.parametrize("calls", [1, 8, 40])
def test_small_pieces_of_reformatting_count_together(workspace: MakeWorkspace, calls: int) -> None:
    body = "".join(f"line {n}   \n" for n in range(40))
    docs = workspace({"a.md": body.encode()})
    pieces = [{"old": f"line {n}   ", "new": f"line {n}", "line": n + 1} for n in range(40)]
    results = []
    for start in range(0, 40, 40 // calls):
        seen = short_hash(docs.read("a.md"))
        chunk = pieces[start : start + 40 // calls]
        results.append(use_tool(docs, "edit", path="a.md", hash=seen, replacements=chunk))
    assert not all(result.ok for result in results)
    assert docs.read("a.md").count(b"   \n") >= 40 - MAX_REFORMATTED_LINES
    seen = short_hash(docs.read("a.md"))
    rest = pieces[MAX_REFORMATTED_LINES:]
    why = "The request says: remove the spaces at the ends of lines."
    assert use_tool(docs, "edit", path="a.md", hash=seen, replacements=rest, reformat=why).ok


CARDS = """\
## Start here

<Card title="One" href="/one">
  The first.

  It has two paragraphs.
</Card>
<Card title="Two" href="/two">
  The second.
</Card>

Read on.
"""
GROUPED_CARDS = """\
## Start here

<CardGroup cols={2}>
  <Card title="One" href="/one">
    The first.

    It has two paragraphs.
  </Card>
  <Card title="Two" href="/two">
    The second.
  </Card>
</CardGroup>

Read on.
"""
NAVIGATION = """\
{
  "navigation": {
    "pages": [
      "index",
      "one",
      "two",
      "three",
      "four",
      "five",
      "six",
      "seven"
    ]
  }
}
"""
GROUPED_NAVIGATION = """\
{
  "navigation": {
    "pages": [
      "index",
      {
        "group": "Numbers",
        "pages": [
          "one",
          "two",
          "three",
          "four",
          "five",
          "six",
          "seven"
        ]
      }
    ]
  }
}
"""
STEPS = "".join(f"{n}. Step {n}, which is short.\n" for n in range(1, 9))
SHIFTS = {
    "cards in a group": (CARDS, GROUPED_CARDS),
    "pages in a group": (NAVIGATION, GROUPED_NAVIGATION),
    "a note": (STEPS, "<Note>\n" + textwrap.indent(STEPS, "  ") + "</Note>\n"),
    "an accordion, with an edited line": (
        STEPS,
        '<Accordion title="Steps">\n' + textwrap.indent(STEPS.replace("Step 4", "Part 4"), "  ") + "</Accordion>\n",
    ),
    "an admonition": (STEPS, "!!! note\n\n" + textwrap.indent(STEPS, "    ")),
    "a group of a menu": (
        "nav:\n" + "".join(f"  - {n}.md\n" for n in range(9)),
        "nav:\n  - Numbers:\n" + "".join(f"    - {n}.md\n" for n in range(9)),
    ),
}


@pytest.mark.parametrize("what", SHIFTS)
def test_lines_may_move_into_and_out_of_a_block(what: str) -> None:
    before, after = SHIFTS[what]
    assert check_edit(after, before) is None
    assert check_edit(before, after) is None


def test_shift_without_an_opening_line_is_reformatting() -> None:
    assert check_edit(textwrap.indent(STEPS, "  "), STEPS)
    assert check_edit(STEPS + "\nOne more line.\n", textwrap.indent(STEPS, "  "))
    elsewhere = "<Note>A new note.</Note>\n\nSome text.\n\n"
    assert check_edit(elsewhere + textwrap.indent(STEPS, "  "), "Some text.\n\n" + STEPS)


@pytest.mark.parametrize(("old", "written"), [(PAGE, PAGE.rstrip("\n")), (PAGE.rstrip("\n"), PAGE)])
def test_final_newline_is_kept(workspace: MakeWorkspace, old: str, written: str) -> None:
    docs = workspace({"a.md": old.encode()})
    content = written.replace("60 MB", "80 MB")
    assert use_tool(docs, "write", path="a.md", hash=short_hash(old.encode()), content=content).ok
    assert docs.read("a.md").decode() == old.replace("60 MB", "80 MB")


@pytest.mark.drill
def test_large_file_is_checked_quickly() -> None:
    old = "".join(f"Line {n} of a long file, which says {n * n}.\n" for n in range(30_000))
    with limit_cpu(seconds=15):
        assert check_edit(old.replace("Line 5 ", "Line five ").replace("Line 29999 ", "The last "), old) is None
        assert check_edit(old.replace("0 of a", "0 of one"), old) is None
        assert check_edit(old.replace(", which", ",  which"), old, allow_rewrite=True)
