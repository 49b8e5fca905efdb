"""Pages that try to break the checks: nothing raises, nothing hangs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.agent.overview.repository_overview import render_overview
from copydesk.jobs.checks import check, format_for_model
from copydesk.jobs.pages.parsing.page_parser import parse_page
from copydesk.jobs.pages.site.generators import CONFIG_PARSERS
from copydesk.jobs.pages.site.nav_files import parse_nav_file
from copydesk.jobs.workspace.repository_limits import DEFAULT_LIMITS
from tests.jobs.conftest import MakeWorkspace
from tests.support.cpu_budget import limit_cpu

PIECES = (
    " ¦\n¦\n\n¦\r\n¦\t¦    ¦`¦```¦~~~¦[¦](¦)¦![¦<!--¦-->¦{/*¦*/}¦{¦}¦a¦# ¦<¦>¦</¦/>¦<A ¦<b>¦</b>¦'¦=¦\\¦$$¦---\n¦+++\n¦"
    'title: ¦href=¦ id="¦\nimport ¦\nexport ¦ from ¦- ¦> ¦1. ¦::\n¦:::¦{%¦%}¦{{¦}}¦--8<-- "¦@include: ¦\n<<< ¦\n.. _x:¦'
    "\n.. toctree::\n¦\n.. image:: ¦:ref:`¦:doc:`¦{ref}`¦\n```{toctree}\n¦../¦/x.md¦#y¦%41¦é¦\u202e¦\ufeff¦\x00¦\n(x)="
)
MARKS = st.sampled_from(PIECES.split("¦"))
TEXT = st.lists(MARKS, max_size=60).map("".join)


@given(TEXT, st.sampled_from([".md", ".mdx", ".rst", ".markdown"]))
def test_any_page_can_be_parsed(text: str, kind: str) -> None:
    facts = parse_page(kind, text.encode("utf-8", "replace"))
    lines = text.count("\n") + 1
    assert all(1 <= line <= lines for line, _, _ in facts.references)
    assert all(1 <= problem.line <= lines for problem in facts.problems)


@given(st.binary(max_size=200), st.sampled_from([".md", ".mdx", ".rst"]))
def test_any_bytes_can_be_parsed(data: bytes, kind: str) -> None:
    parse_page(kind, data)
    parse_page(kind, b"---\n" + data + b"\n---\n")


JSON = [*"{}[]:,\"'-&*|>`é", '"navigation"', '"pages"', '"root"', '"link"', "id", "nav:", "!include", "\n", "\t", "//"]
JSON += ["/*", "*/", "\\", "...", "x.md"]


@given(
    st.lists(st.sampled_from(JSON), max_size=40).map(" ".join),
    st.sampled_from([*CONFIG_PARSERS, "sidebars.js", "sidebars.json", ".vitepress/config.ts"]),
)
def test_any_configuration_can_be_parsed(text: str, path: str) -> None:
    parse_nav_file(path, text)
    if path in CONFIG_PARSERS:
        CONFIG_PARSERS[path](path, text)


LONG = 200_000
HOSTILE = {
    "brackets": "[" * LONG,
    "includes without end": "<!--@include:" * (LONG // 13),
    "links without end": "](" * (LONG // 2),
    "open links": "[a](" * (LONG // 4),
    "nested quotations": "> " * (LONG // 2),
    "backticks": "` `` " * (LONG // 5),
    "one line": "a " * (LONG // 2),
    "spaces in a heading": "# " + " " * LONG + "x",
    "headings": "# a\n" * (LONG // 4),
    "underlines": "a\n---\n" * (LONG // 6),
    "tags": "<a " * (LONG // 3),
    "open tags": "<a>" * (LONG // 3),
    "tags with quotes": '<a b="' * (LONG // 6),
    "braces": "{" * LONG,
    "quotes in braces": "{'\"`" * (LONG // 4),
    "comments": "<!--" * (LONG // 4),
    "dollars": "$<" * (LONG // 2),
    "imports": "import a\n" * (LONG // 9),
    "definitions": "[a]: b\n" * (LONG // 7),
    "labels": "(a)=\n" * (LONG // 5),
    "snippets": '--8<-- "a"\n--8<--\n' * (LONG // 19),
    "includes": "{% include a %}" * (LONG // 15),
    "attribute lists": "{: #a " * (LONG // 6),
    "fences": "```\n~~~\n" * (LONG // 8),
    "tables of contents": "```{toctree}\na\n" * (LONG // 15),
    "rst tables of contents": ".. toctree::\n\n   a\n" * (LONG // 19),
    "rst roles": ":ref:`a <" * (LONG // 9),
    "rst directives": ".. image:: a\n" * (LONG // 13),
    "deep front matter": "---\na: " + "[" * 60_000 + "]" * 60_000 + "\n---\n",
    "deep lists in front matter": "---\n" + "- " * 30_000 + "a\n---\n",
    "long front matter": "---\n" + "a: b\n" * (LONG // 5) + "---\n",
    "aliases": "---\na: &a [x, x]\n"
    + "".join(f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *a]\n" for n in range(99))
    + "---\n",
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", [".md", ".mdx", ".rst"])
@pytest.mark.parametrize("name", HOSTILE)
def test_parsing_time_is_bounded_by_size(name: str, kind: str) -> None:
    with limit_cpu(seconds=10):
        parse_page(kind, HOSTILE[name].encode())


@pytest.mark.deep
def test_a_page_of_five_megabytes_and_one_with_ten_thousand_links_are_checked(workspace: MakeWorkspace) -> None:
    links = b"".join(b"## Heading %d\n[x](#heading-%d) [y](nowhere-%d.md)\n" % (n, n + 1, n) for n in range(5_000))
    edited = workspace({"mkdocs.yml": b"site_name: x\n", "docs/a.md": b"# A\n"})
    edited.write("docs/big.md", b"[x](nowhere.md) words\n" * 250_000)
    edited.write("docs/links.md", links)
    edited.write("docs/b.md", b"[big](big.md#whatever)\n")
    with limit_cpu(seconds=20):
        report = check(edited)
        assert len(report.introduced) == 5_001
        assert len(format_for_model(report)) < 10_000


def test_deeply_nested_and_long_paths_are_checked(workspace: MakeWorkspace) -> None:
    deep = "/".join(["d"] * DEFAULT_LIMITS.depth)
    made = workspace(
        {
            f"{deep}/a.md": b"[x](" + b"../" * DEFAULT_LIMITS.depth + b"b.md) [y](" + b"x" * 100_000 + b".md)\n",
            "b.md": b"x",
        }
    )
    assert len(check(made).old) == 1


LAUGHS = "a0: &a0 [x.md, x.md]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 26))


@pytest.mark.parametrize("nav", ["nav: &n\n  - a: *n\n", LAUGHS + "nav: *a25\n", "nav: " + "[" * 2000 + "]" * 2000])
def test_recursive_or_endless_navigation_is_parsed(workspace: MakeWorkspace, nav: str) -> None:
    made = workspace({"mkdocs.yml": nav.encode(), "docs/index.md": b"# A\n", "docs/x.md": b"# X\n"})
    made.write("docs/index.md", b"# A\n\n[x](x.md)\n")
    with limit_cpu(seconds=5):
        check(made)
        render_overview(made.tree)
