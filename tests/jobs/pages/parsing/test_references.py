"""Every reference of a page is found once, with its exact position, and as a Markdown parser sees it."""

from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from copydesk.jobs.pages.parsing.page_parser import find_references, parse_page


@pytest.mark.parametrize(
    ("path", "body", "sure", "others"),
    [
        ("a.md", '[a](b.md "t") ![i](<c d.png>)', ["link b.md", "link c d.png"], []),
        ("a.md", '[a]: b.md "t"\n[b]: c.md some words', ["link b.md"], ["link c.md"]),
        ("a.mdx", '<Foo href="b.md"> <Link to="c.md"> <a href=\'d.md\'>', ["html c.md", "html d.md"], ["html b.md"]),
        ("a.mdx", '<Card img="b.png" href="c.md" image="words">', ["html b.png", "html c.md"], ["html words"]),
        ("a.md", '<video poster="b.png" src="c.mp4">', ["html b.png", "html c.mp4"], []),
        ("a.mdx", 'import {\n A\n} from "./b.mdx"', ["import ./b.mdx"], []),
        ("a.mdx", 'export const x = y from "./b.mdx"', [], []),
        ("a.md", "{doc}`b` {doc}`t <c>` {ref}`x`", ["doc b", "doc c", "ref x"], []),
        ("a.md", "```\n{doc}`b`\n```\n", [], []),
        ("a.md", '---\nx: "{doc}`b`"\n---\n', [], []),
        ("a.mdx", "{doc}`b`", [], []),
        ("a.md", "```{toctree}\nb\nC <c>\n```\n", ["toctree b", "toctree c"], []),
        ("a.md", "````md\n```{toctree}\nb\n```\n````\n", [], []),
        ("a.md", "```{include} b.md\n```\n", ["include b.md"], []),
        ("a.md", '--8<-- "b.md"\n\n--8<--\nc.md\n; d.md\n--8<--\n', ["snippet b.md", "snippet c.md"], []),
        ("a.md", '{% include "b.md" %}', ["liquid include b.md"], []),
        ("a.md", "<!--@include: ./b.md-->\n<<< ./c.js", ["vitepress ./b.md", "vitepress ./c.js"], []),
        ("a.md", "{{#include b.md}}", ["mdbook b.md"], []),
        ("a.mdx", '<Snippet file="b.mdx" />', ["tag b.mdx"], []),
        ("a.rst", ".. image:: my pic.png\n.. include:: b.rst", ["image my pic.png", "include b.rst"], []),
        ("a.rst", ":doc:`b` :doc:`t <c>` :std:doc:`d` :doc:`!e` ``:doc:`f```", ["doc b", "doc c", "doc d"], []),
        ("a.rst", ":download:`b.zip` :ref:`x`", ["download b.zip", "ref x"], []),
        ("a.rst", "`t <b.html>`_\n\n.. _c: d.rst", [], ["link b.html", "link d.rst"]),
        ("a.rst", ".. toctree::\n\n   a\n   B <b>\n", ["toctree a", "toctree b"], []),
        ("a.adoc", "link:b.adoc[x] <<c.adoc#d>>", ["link b.adoc", "link c.adoc"], []),
    ],
)
def test_references_are_found_with_their_positions(path: str, body: str, sure: list[str], others: list[str]) -> None:
    references = find_references(path, body)
    assert [f"{each.kind} {each.target}" for each in references if each.is_sure] == sure
    assert [f"{each.kind} {each.target}" for each in references if not each.is_sure] == others
    assert all(body[each.start : each.end] == each.target for each in references)


@pytest.mark.parametrize(
    ("target", "names_file"),
    [
        ("b.md", True),
        ("b.md#c", True),
        ("@site/docs/a.md", True),
        ("@/b.md", True),
        ("#b", False),
        ("https://x.example/b.md", False),
        ("//x.example", False),
        ("mailto:a@b.example", False),
        ("x@/c.md", False),
        ("...", False),
        ("a…", False),
        ("{{ url }}", False),
        ("$x/b.md", False),
    ],
)
def test_target_names_a_file_or_not(target: str, names_file: bool) -> None:
    [reference] = find_references("a.mdx", f"[x](<{target}>)")
    assert reference.names_file == names_file


def test_checks_and_editors_see_the_same_references() -> None:
    body = "[a](b.md)\n\n![i](c.png) <a href='d.md'>x</a>\n\n[r]: e.md\n"
    references = find_references("a.md", body)
    facts = parse_page(".md", body.encode())
    assert facts.references == tuple(
        (body.count("\n", 0, each.start) + 1, each.kind, each.target) for each in references
    )


PIECES = st.sampled_from(
    [
        "[a](b.md)",
        "![i](<c d.png>)",
        '[t](e.md "x")',
        "[p](f(1).md)",
        "[n\nl](g.md)",
        "[h](\n i.md )",
        "`[c](d)`",
        "``a ` [c](d)``",
        "\\[x](y.md)",
        "[x]\\(y.md)",
        "[u](v w.md)",
        "[o](q.md",
        "text",
        "*[e](k.md)*",
        "[![n](m.png)](o.md)",
        "# [z](r.md)",
        "> [s](t.md)",
        "- [j](l.md)",
        "```\n[c](d)\n```",
        "text\n\n    [c](d)",  # after a list or HTML, the parser here takes it for their content
        "<!-- [c](d) -->",
        "[]()",
    ]
)


@pytest.mark.deep
@given(st.lists(PIECES, max_size=6).map("\n\n".join))
def test_inline_links_are_those_of_a_commonmark_parser(body: str) -> None:
    ours = [each.target for each in find_references("a.md", body) if each.kind == "link"]
    expected = list(_find_link_targets(MarkdownIt("commonmark").parse(body)))
    assert sorted(map(unquote, ours)) == sorted(map(unquote, expected))


def _find_link_targets(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        target = token.attrs.get("href" if token.type == "link_open" else "src", "")
        if token.type in ("link_open", "image") and target:
            yield str(target)
        yield from _find_link_targets(token.children or [])
