"""The agent's tools: their output, their changes, and their errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pygit2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygit2.enums import FileMode

from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tool_round import Splice
from copydesk.jobs.agent.tools import TOOLS, Toolbox, build_toolset
from copydesk.jobs.pages.redirects import find_vanished_addresses
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.workspace import Workspace, short_hash
from tests.support.repositories import make_repository

MakeWorkspace = Callable[[dict[str, bytes]], Workspace]


def use_tool(workspace: Workspace, name: str, **arguments: Any) -> ToolResult:
    return Toolbox(workspace).call(ToolCall(id="1", name=name, arguments=arguments))


def test_tools_are_fixed_and_include_no_shell() -> None:
    reading = {"list", "read", "search", "diff", "history"}
    context = {"log", "show"}
    assert set(TOOLS) == reading | context | {"edit", "write", "replace", "move", "delete", "ask", "finish"}
    assert set(build_toolset()) == set(TOOLS) - context
    assert set(build_toolset(has_contexts=True)) == set(TOOLS)


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


def test_read_shows_several_files_and_says_what_is_missing(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"one\n", "b.md": b"two\n", "big.md": b"x" * 39_000, "bigger.md": b"y" * 39_000})
    shown = use_tool(docs, "read", paths=["a.md", "b.md", "c.md"]).text
    assert f"a.md hash {short_hash(b'one' + chr(10).encode())}" in shown
    assert "     1\ttwo" in shown
    assert "c.md: There is no file c.md" in shown
    assert "Not read, because that is too much at once: bigger.md." in (
        use_tool(docs, "read", paths=["big.md", "bigger.md"]).text
    )
    assert not use_tool(docs, "read").ok
    assert not use_tool(docs, "read", paths=["c.md"]).ok


def test_search_returns_lines_with_context_and_notes_truncation(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"one\ntwo\nthree\n", "b.md": b"two\r\ntwo\r\n", "c.bin": b"two\0"})
    heading = f"a.md hash {short_hash(docs.read('a.md'))}"
    assert use_tool(docs, "search", pattern="^two$", limit=1).text.splitlines() == [
        "3 lines match in 2 files; shown: 1 to 1.",
        heading,
        "2: two",
        "Further matches, with offset 1: b.md (2)",
    ]
    assert use_tool(docs, "search", pattern="TWO", ignore_case=True, files="a*", context=1).text.splitlines()[1:] == [
        heading,
        "1- one",
        "2: two",
        "3- three",
        "--",
    ]
    assert use_tool(docs, "search", pattern="four").text == "Nothing matches."
    assert use_tool(docs, "search", pattern=r"\Atwo\Z").text.startswith("3 lines match")
    assert use_tool(docs, "search", pattern=r"two(?!\n)").text.startswith("3 lines match")


def test_search_shows_the_hash_with_which_a_file_can_be_edited(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"one\n"})
    heading = use_tool(docs, "search", pattern="one").text.splitlines()[1]
    seen = heading.removeprefix("a.md hash ")
    assert use_tool(docs, "edit", path="a.md", hash=seen, replacements=[{"old": "one", "new": "two"}]).ok


def test_search_with_more_context_than_it_shows_shows_the_most_that_it_can(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"".join(b"%d\n" % n for n in range(100))})
    assert use_tool(docs, "search", pattern="^50$", context=25).text == (
        use_tool(docs, "search", pattern="^50$", context=10).text
    )
    assert use_tool(docs, "search", pattern="^50$", context=-1).text.endswith("\n51: 50")


def test_search_does_not_read_files_that_its_patterns_leave_out(tmp_path: Path) -> None:
    repository = pygit2.Repository(str(make_repository(tmp_path / "docs.git", {"a.md": b"unread\n", "b.md": b"x\n"})))
    commit = repository.revparse_single("refs/heads/main").peel(pygit2.Commit)
    blob = str(commit.tree["a.md"].id)
    (tmp_path / "docs.git" / "objects" / blob[:2] / blob[2:]).unlink()
    docs = Workspace(Tree(repository, str(commit.id)))
    assert use_tool(docs, "search", pattern="x", files="b.*").text.startswith("1 line matches in 1 file.")
    assert use_tool(docs, "search", pattern="x", exclude="a.*").text.startswith("1 line matches in 1 file.")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"one\ntwo", ["1: one", "2: two"]),
        (r"two\s+three", ["2: two", "3: three"]),
        (r"(?<=two\n)three", ["3: three"]),
        (r"three\n", ["3: three"]),
        (r"four|two\nthree", ["2: two", "3: three"]),
        (r"three\s*", ["3: three"]),
        (r"three\s*+$", ["3: three"]),
        (r"^(?>\s*)five", ["5: five"]),
        (r"\s+five", ["5: five"]),
        (r"(?s)one.*two", ["1: one", "2: two"]),
        (r"^$", ["4: ", "6: "]),
    ],
)
def test_search_finds_what_matches_in_a_line_or_over_line_ends(
    workspace: MakeWorkspace, pattern: str, found: list[str]
) -> None:
    docs = workspace({"a.md": b"one\r\ntwo\r\nthree\r\n\r\nfive\r\n"})
    assert use_tool(docs, "search", pattern=pattern).text.splitlines()[2:] == found


def test_search_pages_through_matches_and_counts_the_rest_by_file(workspace: MakeWorkspace) -> None:
    docs = workspace({f"{n}.md": b"x\n" * n for n in range(1, 6)})
    seen: list[str] = []
    path = ""
    for offset in range(0, 15, 4):
        shown = use_tool(docs, "search", pattern="x", limit=4, offset=offset).text.splitlines()
        assert shown[0] == f"15 lines match in 5 files; shown: {offset + 1} to {min(offset + 4, 15)}."
        for line in shown[1:]:
            path = line.partition(" hash ")[0] if " hash " in line else path
            seen += [f"{path}:{line}"] if line.endswith(": x") else []
    assert len(seen) == len(set(seen)) == 15
    assert "5.md (4)" in use_tool(docs, "search", pattern="x", limit=11).text


def test_search_takes_several_patterns_and_exclusions(workspace: MakeWorkspace) -> None:
    docs = workspace({"a/x.md": b"x\n", "b/x.mdx": b"x\n", "c/x.md": b"x\n", "d/x.txt": b"x\n"})
    shown = use_tool(docs, "search", pattern="x", files=["*.md", "*.mdx"], exclude=["c/*"]).text
    code = short_hash(b"x\n")
    assert shown.splitlines()[1:] == [f"a/x.md hash {code}", "1: x", f"b/x.mdx hash {code}", "1: x"]


def test_search_merges_context_and_marks_cut_lines(workspace: MakeWorkspace) -> None:
    docs = workspace({"a.md": b"1\nx\n3\nx\n5\n6\n7\n8\nx\n", "b.md": b"long " * 200})
    shown = use_tool(docs, "search", pattern="x", context=1).text.splitlines()[2:]
    assert shown == ["1- 1", "2: x", "3- 3", "4: x", "5- 5", "--", "8- 8", "9: x", "10- ", "--"]
    assert use_tool(docs, "search", pattern="long").text.endswith("… [cut: 1,000 characters]")


def test_search_that_is_too_long_lists_the_other_files(workspace: MakeWorkspace) -> None:
    docs = workspace({f"{n:03}.md": b"word " * 70 + b"\n" for n in range(300)})
    shown = use_tool(docs, "search", pattern="word", limit=1000).text
    assert len(shown) <= 40_000
    assert "300 lines match in 300 files; shown: 1 to " in shown
    assert "Further matches, with offset " in shown
    assert "more files" in shown


TRANSLATED = {
    **{f"{n}.mdx": b"Colour\n" for n in range(3)},
    **{f"{language}/{n}.mdx": b"Colour\n" for language in ("es", "zh") for n in range(3)},
}


def test_search_leaves_out_translations_unless_they_are_asked_for(workspace: MakeWorkspace) -> None:
    docs = workspace(TRANSLATED)
    shown = use_tool(docs, "search", pattern="Colour").text
    assert shown.splitlines()[0] == "3 lines match in 3 files."
    assert shown.endswith("Not searched: 6 files of translations (es/, zh/). Set translations to include them.")
    assert "in 9 files" in use_tool(docs, "search", pattern="Colour", translations=True).text
    assert "in 3 files" in use_tool(docs, "search", pattern="Colour", files="es/*").text


def test_replace_shows_a_preview_and_carries_out_exactly_that(workspace: MakeWorkspace) -> None:
    docs = workspace({**TRANSLATED, "win.md": b"A Colour\r\nColours\r\n", "conf.py": b"Colour\n"})
    arguments = {"old": "Colour", "new": "Color", "exclude": ["2.mdx"]}
    preview = use_tool(docs, "replace", **arguments)
    assert preview.ok
    assert docs.changes() == {}
    assert "win.md:1: A Color" in preview.text
    assert "Not changed: 6 files of translations (es/, zh/)." in preview.text
    code = preview.text.partition("repeat the call with confirm ")[2][:8]
    other = {**arguments, "new": "Hue"}
    assert not use_tool(docs, "replace", **other, confirm=code).ok
    assert docs.changes() == {}
    done = use_tool(docs, "replace", **arguments, confirm=code)
    assert done.ok
    assert sorted(docs.changes()) == ["0.mdx", "1.mdx", "conf.py", "win.md"]
    assert docs.read("win.md") == b"A Color\r\nColours\r\n"
    assert f"win.md (hash {short_hash(docs.read('win.md'))})" in done.text
    assert not use_tool(docs, "replace", **arguments, confirm=code).ok


def test_replace_leaves_protected_files_alone(workspace: MakeWorkspace) -> None:
    tree = workspace({"a.md": b"one\n", "conf.py": b"one\n"}).tree

    def refuse_programs(path: str) -> None:
        if path.endswith(".py"):
            raise PathRefused(path)

    docs = Workspace(tree, refuse_programs)
    preview = use_tool(docs, "replace", old="one", new="two").text
    assert "a.md:1: two" in preview
    assert "conf.py" not in preview


def test_diff_shows_a_moved_file_as_renamed(workspace: MakeWorkspace) -> None:
    body = b"".join(b"line %d\n" % n for n in range(20))
    docs = workspace({"a.md": body, "b.md": b"See [a](a.md).\n"})
    assert use_tool(docs, "move", path="a.md", to="guide/a.md").ok
    shown = use_tool(docs, "diff").text
    assert "rename from a.md\nrename to guide/a.md\n" in shown
    assert "line 7" not in shown
    assert "+See [a](guide/a.md)." in shown
    seen = short_hash(body)
    assert use_tool(docs, "edit", path="guide/a.md", hash=seen, replacements=[{"old": "line 7\n", "new": ""}]).ok
    assert "-line 7\n" in use_tool(docs, "diff", path="guide/a.md").text
    assert "line 7\n" in use_tool(docs, "diff", path="a.md").text


DOCS_JSON = b"""{
  "navigation": {
    "pages": [
      "index",
      "old",
      "new"
    ]
  },
  "redirects": [
    {
      "source": "/ancient",
      "destination": "/old"
    }
  ]
}
"""
MINTLIFY = {"docs.json": DOCS_JSON, "index.mdx": b"[o](/old)\n", "old.mdx": b"# Old\n", "new.mdx": b"# New\n"}


def test_move_adds_a_redirect_and_reports_hashes(workspace: MakeWorkspace) -> None:
    docs = workspace(MINTLIFY)
    result = use_tool(docs, "move", path="old.mdx", to="guide/old.mdx", redirect=True).text
    assert json.loads(docs.read("docs.json"))["redirects"][1:] == [{"source": "/old", "destination": "/guide/old"}]
    assert '    },\n    {\n      "source": "/old",\n' in docs.read("docs.json").decode()
    assert "Added a redirect from /old to /guide/old in docs.json." in result
    for path in ("guide/old.mdx", "index.mdx", "docs.json"):
        assert f"{path} {short_hash(docs.read(path))}" in result
    assert find_vanished_addresses(docs) == []


def test_address_that_vanishes_without_a_redirect_is_noted(workspace: MakeWorkspace) -> None:
    docs = workspace(MINTLIFY)
    assert "Its address /old no longer exists and has no redirect." in (
        use_tool(docs, "move", path="old.mdx", to="guide/old.mdx").text
    )
    assert find_vanished_addresses(docs) == ["/old"]
    docs = workspace(MINTLIFY)
    assert not use_tool(docs, "delete", path="old.mdx", redirect_to="gone.mdx").ok
    assert use_tool(docs, "delete", path="old.mdx", redirect_to="new.mdx").ok
    assert find_vanished_addresses(docs) == []
    assert json.loads(docs.read("docs.json"))["redirects"][-1]["destination"] == "/new"


DELETED_WITH_MENU = {
    "docs.json": (MINTLIFY, "old.mdx", ("docs.json", '      "old",\n'), "Still linked from docs.json:12, index.mdx:1."),
    "mkdocs": (
        {"mkdocs.yml": b"nav:\n- a.md\n- old.md\n", "docs/a.md": b"# A\n\n[o](old.md#x)\n", "docs/old.md": b"# Old\n"},
        "docs/old.md",
        ("mkdocs.yml", "- old.md\n"),
        "Still linked from docs/a.md:3.",
    ),
    "mdbook": (
        {
            "book.toml": b"",
            "src/SUMMARY.md": b"- [A](a.md)\n- [O](old.md)\n",
            "src/a.md": b"#",
            "src/old.md": b"# Old\n",
        },
        "src/old.md",
        ("src/SUMMARY.md", "- [O](old.md)\n"),
        "",
    ),
    "sphinx": (
        {
            "docs/conf.py": b"",
            "docs/index.rst": b"A\n=\n\n:ref:`here`\n\n.. toctree::\n\n   a\n   old\n",
            "docs/a.rst": b"A\n=\n\n:doc:`old`\n",
            "docs/old.rst": b".. _here:\n\nOld\n===\n",
        },
        "docs/old.rst",
        ("docs/index.rst", "   old\n"),
        "Still linked from docs/a.rst:4, docs/index.rst:4.",
    ),
}


@pytest.mark.parametrize("what", DELETED_WITH_MENU)
def test_delete_removes_the_entry_in_the_navigation_and_names_what_still_links(
    workspace: MakeWorkspace, what: str
) -> None:
    files, page, (menu, entry), links = DELETED_WITH_MENU[what]
    docs = workspace(files)
    result = use_tool(docs, "delete", path=page).text
    assert result.startswith(f"Deleted {page} and its entries in {menu}.\n")
    assert docs.read(menu) == files[menu].replace(entry.encode(), b"")
    assert f"New hashes: {menu} {short_hash(docs.read(menu))}." in result
    assert links in result
    assert ("Still linked" in result) == bool(links)
    assert sorted(docs.changes()) == sorted([menu, page])


def test_delete_says_which_menu_a_person_must_update(workspace: MakeWorkspace) -> None:
    menu = b"export default {themeConfig: {sidebar: [{text: 'O', link: '/old'}, {text: 'A', link: '/a'}]}}\n"
    tree = workspace({".vitepress/config.ts": menu, "old.md": b"# Old\n", "a.md": b"# A\n", "i.png": b"\0"}).tree

    def refuse_programs(path: str) -> None:
        if path.endswith(".ts"):
            raise PathRefused(path)

    docs = Workspace(tree, refuse_programs)
    result = use_tool(docs, "delete", path="old.md")
    assert result.ok
    assert "A person must update .vitepress/config.ts: jobs may not change it." in result.text
    assert use_tool(docs, "delete", path="i.png").text == "Deleted i.png."
    assert sorted(docs.changes()) == ["i.png", "old.md"]


def test_redirect_is_the_first_of_its_file(workspace: MakeWorkspace) -> None:
    docs = workspace({**MINTLIFY, "docs.json": DOCS_JSON[: DOCS_JSON.index(b',\n  "redirects"')] + b"\n}\n"})
    assert use_tool(docs, "move", path="old.mdx", to="guide/old.mdx", redirect=True).ok
    assert json.loads(docs.read("docs.json"))["redirects"] == [{"source": "/old", "destination": "/guide/old"}]


REDIRECT_PLACES = {
    "mkdocs": (
        {"mkdocs.yml": b"nav:\n- old.md\nplugins:\n- redirects:\n    redirect_maps:\n      'a.md': 'old.md'\n"},
        "docs/old.md",
        "docs/sub/old.md",
        ("mkdocs.yml", "      'old.md': 'sub/old.md'\n      'a.md'"),
    ),
    "docusaurus": (
        {"docusaurus.config.js": b"plugins: [['@docusaurus/plugin-client-redirects', {\n  redirects: [\n  ],\n}]]\n"},
        "docs/old.md",
        "docs/sub/old.md",
        ("docusaurus.config.js", '{from: "/docs/old", to: "/docs/sub/old"},'),
    ),
    "a host": (
        {".vitepress/config.ts": b"export default {}\n", "public/_redirects": b"/a /b 301"},
        "old.md",
        "sub/old.md",
        ("public/_redirects", "/a /b 301\n/old /sub/old 301\n"),
    ),
}


@pytest.mark.parametrize("what", REDIRECT_PLACES)
def test_redirect_has_the_form_of_its_generator(workspace: MakeWorkspace, what: str) -> None:
    files, old, new, (path, text) = REDIRECT_PLACES[what]
    docs = workspace({**files, old: b"# Old\n"})
    assert "Added a redirect" in use_tool(docs, "move", path=old, to=new, redirect=True).text
    assert text in docs.read(path).decode()
    assert find_vanished_addresses(docs) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"/old /sub/old 301\n"),
        (b"/a /b 301", b"/a /b 301\n/old /sub/old 301\n"),
        (b"/a /b\r\n/c /d", b"/a /b\r\n/c /d\r\n/old /sub/old 301\r\n"),
        (b"/a /b\r\n", b"/a /b\r\n/old /sub/old 301\r\n"),
        (b"/a /b\r\n/c /d\n", b"/a /b\r\n/c /d\n/old /sub/old 301\n"),
    ],
)
def test_redirect_begins_and_ends_a_line_of_its_file(workspace: MakeWorkspace, before: bytes, after: bytes) -> None:
    docs = workspace({".vitepress/config.ts": b"", "public/_redirects": before, "old.md": b"# Old\n"})
    assert "Added a redirect" in use_tool(docs, "move", path="old.md", to="sub/old.md", redirect=True).text
    assert docs.read("public/_redirects") == after


def test_redirects_have_the_addresses_that_a_browser_requests(workspace: MakeWorkspace) -> None:
    docs = workspace({".vitepress/config.ts": b"", "_redirects": b"", "Über uns.md": b"# A\n", "c++ (1).md": b"# B\n"})
    assert use_tool(docs, "move", path="Über uns.md", to="about us.md", redirect=True).ok
    assert use_tool(docs, "move", path="c++ (1).md", to="cpp.md", redirect=True).ok
    assert docs.read("_redirects") == b"/%C3%9Cber%20uns /about%20us 301\n/c++%20(1) /cpp 301\n"
    assert find_vanished_addresses(docs) == []
    docs = workspace(
        {"docs.json": b'{"navigation": {"pages": ["a b", "c"]}}\n', "a b.mdx": b"# A\n", "c.mdx": b"# C\n"}
    )
    assert use_tool(docs, "delete", path="a b.mdx", redirect_to="c.mdx").ok
    assert json.loads(docs.read("docs.json"))["redirects"] == [{"source": "/a%20b", "destination": "/c"}]
    assert find_vanished_addresses(docs) == []


def test_move_says_why_there_is_no_redirect(workspace: MakeWorkspace) -> None:
    docs = workspace({"mkdocs.yml": b"nav:\n- old.md\n", "docs/old.md": b"# Old\n"})
    result = use_tool(docs, "move", path="docs/old.md", to="docs/new.md", redirect=True)
    assert result.ok
    assert "No redirect was added: mkdocs.yml does not use the redirects plugin." in result.text
    tree = workspace({"docusaurus.config.js": REDIRECT_PLACES["docusaurus"][0]["docusaurus.config.js"],
                      "docs/old.md": b"# Old\n"}).tree  # fmt: skip

    def refuse_programs(path: str) -> None:
        if path.endswith(".js"):
            raise PathRefused(path)

    docs = Workspace(tree, refuse_programs)
    result = use_tool(docs, "move", path="docs/old.md", to="docs/new.md", redirect=True)
    assert "it belongs in docusaurus.config.js, which is protected" in result.text


def test_history_lists_commits_and_who_changed_each_line(tmp_path: Path) -> None:
    repository = pygit2.init_repository(str(tmp_path), bare=True)
    parents: list[pygit2.Oid] = []
    for number, body in enumerate([b"one\ntwo\n", b"one\ntwo\n", b"one\n2\n"]):
        builder = repository.TreeBuilder()
        builder.insert("a.md", repository.create_blob(body), FileMode.BLOB)
        builder.insert("b.md", repository.create_blob(b"%d" % number), FileMode.BLOB)
        author = pygit2.Signature(f"Ada {number}", "ada@example.com", 1_700_000_000 + number, 0)
        commit = repository.create_commit(None, author, author, f"Change {number}\n\nWhy", builder.write(), parents)
        parents = [commit]
    docs = Workspace(Tree(repository, str(parents[0])))
    shown = use_tool(docs, "history", path="a.md", first=1, last=2).text.splitlines()
    assert [line.partition(" ")[2] for line in shown[:2]] == [
        "2023-11-14 Ada 2: Change 2",
        "2023-11-14 Ada 0: Change 0",
    ]
    assert [line.partition(":")[0] for line in shown[3:]] == ["lines 1 to 1", "lines 2 to 2"]
    assert shown[4].endswith("Ada 2: Change 2")
    assert not use_tool(docs, "history", path="c.md").ok


@pytest.mark.deep
def test_runaway_pattern_is_stopped(workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copydesk.jobs.agent.tools.search_tool.SEARCH_TIMEOUT_SECONDS", 0.3)
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


def test_edit_returns_its_diff_and_the_hash_for_the_next_edit(workspace: MakeWorkspace) -> None:
    data = "eins\r\nzwei\r\ndrei\r\nvier für\r\n".encode("latin-1")
    docs = workspace({"a.md": data})
    replacements = [{"old": "drei", "new": "3"}]
    first = use_tool(docs, "edit", path="a.md", hash=short_hash(data), replacements=replacements).text
    new_hash = short_hash(docs.read("a.md"))
    assert first.splitlines() == [
        *("Edited a.md (+1 −1)", f"New hash: {new_hash}", "@@ -2,3 +2,3 @@ eins", " zwei", "-drei", "+3", " vier für")
    ]
    assert use_tool(docs, "edit", path="a.md", hash=new_hash, replacements=[{"old": "3", "new": "drei"}]).ok
    written = use_tool(docs, "write", path="b.md", content="# B\n\nNew.\n").text
    assert written == f"Wrote b.md (+3 −0)\nNew hash: {short_hash(docs.read('b.md'))}"


def test_a_long_diff_of_an_edit_is_cut(workspace: MakeWorkspace) -> None:
    data = b"".join(b"line %d %s\n" % (n, b"x" * 500 * (n == 1)) for n in range(200))
    docs = workspace({"a.md": data})
    replacements = [{"old": "line", "new": "row", "everywhere": True}]
    shown = use_tool(docs, "edit", path="a.md", hash=short_hash(data), replacements=replacements).text
    assert shown.startswith("Edited a.md (+200 −200)\n")
    assert shown.endswith("\n… cut: diff shows the rest.")
    assert "x …\n" in shown
    assert len(shown) < 2200


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
