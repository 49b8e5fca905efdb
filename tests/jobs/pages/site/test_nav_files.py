"""Navigation files are parsed as data: the pages that they list, other values that name pages, and their positions."""

import pytest

from copydesk.jobs.pages.site.nav_files import parse_nav_file

DOCS_JSON = """{
  "navigation": {"pages": ["a", "GET /users", "https://x.example"]},
  "redirects": [{"source": "/old", "destination": "/b"}],
  "navbar": {"links": [{"href": "c"}]}
}"""
SIDEBARS = (
    "module.exports = {docs: ['a', {type: 'link', href: 'c'}, {type: 'doc', id: 'b', customProps: {list: ['z']}}]}"
)
VITEPRESS = "export default { themeConfig: { nav: [{link: '/n'}], sidebar: [{link: '/a'}, {link: '/b'}] } }"


@pytest.mark.parametrize(
    ("path", "text", "listed", "others"),
    [
        ("docs.json", DOCS_JSON, ["a"], ["GET /users", "/b", "c"]),
        ("docs.json", '{"groups": [{"pages": ["a"]}]}', [], ["a"]),
        ("docs.json", '{"navigation": {"pages": ["a"]}, }', [], ["a"]),  # not valid JSON
        ("sidebars.js", SIDEBARS, ["a", "b"], ["c", "z"]),
        ("sidebars.ts", "const x = require('./x'); export default {docs: ['a', ...x]}", [], ["a"]),
        ("versioned_sidebars/version-1-sidebars.json", '{"docs": ["a"]}', ["a"], []),
        (".vitepress/config.ts", VITEPRESS, ["/a", "/b"], ["/n"]),
        ("mkdocs.yml", "nav:\n  - H: index.md\n  - G:\n    - A: a.md\n  - E: e.md\n", ["index.md", "a.md", "e.md"], []),
        ("mkdocs.yml", "nav:\n  - &h index.md\n  - title: t.md\n  - U: !ENV x.md\n", ["index.md", "t.md"], []),
        ("mkdocs.yml", "nav:\n  - /abs.md\n  - dir/\n  - a.md#x\n", ["a.md"], ["/abs.md"]),
        ("_toc.yml", "root: index\nchapters:\n- file: a\n- glob: b/*\noptions: {numbered: true}\n", ["index", "a"], []),
    ],
)
def test_listed_pages_differ_from_other_values(path: str, text: str, listed: list[str], others: list[str]) -> None:
    nav_file = parse_nav_file(path, text)
    assert [entry.value for entry in nav_file.listed] == (
        listed or (["index.md", "a.md", "end.md"] if listed is None else [])
    )
    assert [entry.value for entry in nav_file.entries if not entry.is_listed] == others
    assert all(entry.span is None or text[slice(*entry.span)] == entry.value for entry in nav_file.entries)


@pytest.mark.parametrize("value", ['"a\\u0062.md"', ">-\n      ab.md"])
def test_entry_that_is_not_written_literally_has_no_position(value: str) -> None:
    [entry] = parse_nav_file("mkdocs.yml", f"nav:\n  - Y: {value}\n").entries
    assert (entry.value, entry.span) == ("ab.md", None)


def test_position_leaves_out_anchor_tag_and_quotes() -> None:
    text = "nav:\n  - A: &a 'é a.md'\n  - B: !!str b.md # b\n"
    assert [text[slice(*entry.span)] for entry in parse_nav_file("mkdocs.yml", text).entries if entry.span] == [
        "é a.md",
        "b.md",
    ]
