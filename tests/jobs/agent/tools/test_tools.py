"""The agent's tools: their output, their changes, and their errors."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tool_round import Splice
from copydesk.jobs.agent.tools import TOOLS, Toolbox
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MakeWorkspace = Callable[[dict[str, bytes]], Workspace]


def use_tool(workspace: Workspace, name: str, **arguments: Any) -> ToolResult:
    return Toolbox(workspace).call(ToolCall(id="1", name=name, arguments=arguments))


def test_tools_are_fixed_and_include_no_shell() -> None:
    assert set(TOOLS) == {"list", "read", "search", "diff", "edit", "write", "move", "delete", "finish"}


def test_list_filters_and_pages(workspace: MakeWorkspace) -> None:
    docs = workspace({f"docs/{n}.md": b"x" for n in range(5)} | {"a.txt": b""})
    assert use_tool(docs, "list", folder="docs/", limit=2).text == "docs/0.md\ndocs/1.md\n… 3 more: ask with offset 2."
    assert use_tool(docs, "list", pattern="*.txt").text == "a.txt"
    assert use_tool(docs, "list", folder="nowhere").text == "No files match."


def test_read_numbers_the_lines_and_returns_the_hash(workspace: MakeWorkspace) -> None:
    data = b"one\r\ntwo\r\nthree"
    docs = workspace({"a.md": data})
    shown = use_tool(docs, "read", path="a.md", start=2, lines=1).text
    assert shown == f"a.md hash {short_hash(data)}, lines 2 to 2 of 3\n     2\ttwo"


def test_search_returns_lines_with_context_and_notes_truncation(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"one\ntwo\nthree\n", "b.md": b"two\r\ntwo\r\n", "c.bin": b"two\0"})
    assert use_tool(docs, "search", pattern="^two$", limit=1).text == "3 lines match, the first 1 shown.\na.md:2: two"
    assert use_tool(docs, "search", pattern="TWO", ignore_case=True, files="a*", context=1).text.splitlines()[1:] == [
        "a.md-1 one".replace("-1 ", ":1- "),
        "a.md:2: two",
        "a.md:3- three",
        "--",
    ]
    assert use_tool(docs, "search", pattern="four").text == "Nothing matches."
    assert use_tool(docs, "search", pattern=r"\Atwo\Z").text.startswith("3 lines match")
    assert use_tool(docs, "search", pattern=r"two(?!\n)").text.startswith("3 lines match")


def test_runaway_pattern_is_stopped(workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copydesk.jobs.agent.tools.read_tools.SEARCH_TIMEOUT_SECONDS", 0.3)
    docs = workspace({"a.md": b"a" * 60 + b"!\n"})
    refused = use_tool(docs, "search", pattern=r"(a|aa)+$")
    assert not refused.ok
    assert "too long" in refused.text


def test_edit_is_all_or_nothing(workspace: MakeWorkspace) -> None:
    data = b"one\ntwo\ntwo\n"
    docs = workspace({"a.md": data})
    both = [{"old": "one", "new": "1"}, {"old": "two", "new": "2"}]
    refused = use_tool(docs, "edit", path="a.md", hash=short_hash(data), replacements=both)
    assert not refused.ok
    assert "occurs 2 times" in refused.text
    assert docs.changes() == {}
    both[1]["line"] = 3  # type: ignore[assignment]
    assert use_tool(docs, "edit", path="a.md", hash=short_hash(data), replacements=both).ok
    assert docs.read("a.md") == b"1\ntwo\n2\n"


def test_edit_with_a_stale_or_missing_hash_is_refused(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"one\n"})
    assert use_tool(
        docs, "edit", path="a.md", hash=short_hash(b"one\n"), replacements=[{"old": "one", "new": "two"}]
    ).ok
    again = use_tool(
        docs, "edit", path="a.md", hash=short_hash(b"one\n"), replacements=[{"old": "two", "new": "three"}]
    )
    assert "read it again" in again.text
    assert "give its hash" in use_tool(docs, "write", path="a.md", content="x").text


def test_edit_that_is_reverted_is_not_a_change(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"one\n"})
    use_tool(docs, "edit", path="a.md", hash=short_hash(b"one\n"), replacements=[{"old": "one", "new": "two"}])
    use_tool(docs, "edit", path="a.md", hash=short_hash(b"two\n"), replacements=[{"old": "two", "new": "one"}])
    assert docs.changes() == {}


def test_writing_a_whole_file_keeps_bytes_of_unchanged_lines(workspace: MakeWorkspace) -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\nthree\r\n"
    docs = workspace({"a.md": data})
    assert use_tool(docs, "write", path="a.md", content="one\ntwo\nTHREE\nfour\n", hash=short_hash(data)).ok
    assert docs.read("a.md") == b"\xef\xbb\xbfone\r\ntwo\nTHREE\r\nfour\r\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell", {"command": "id"}),
        ("edit", {}),
        ("edit", {"path": "a.md", "hash": "x", "replacements": []}),
        ("read", {"path": "a.md", "extra": 1}),
        ("read", {"path": "missing.md"}),
        ("list", {"limit": "many"}),
        ("search", {"pattern": "("}),
        ("finish", {"title": ""}),
    ],
)
def test_invalid_call_is_answered_with_a_message(
    workspace: MakeWorkspace, name: str, arguments: dict[str, Any]
) -> None:
    docs = workspace({"a.md": b"one\n"})
    result = use_tool(docs, name, **arguments)
    assert not result.ok
    assert result.text.endswith((".", "."))
    assert docs.changes() == {}


@given(st.binary() | st.none(), st.binary() | st.none())
def test_recorded_splice_restores_the_change(old: bytes | None, new: bytes | None) -> None:
    kept = Splice.model_validate_json(Splice.between("a", old, new).model_dump_json())
    assert kept.apply(old) == new
