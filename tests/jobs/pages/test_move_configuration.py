"""Moving a page updates every file of the configuration that names it, and the includes of each generator."""

from collections.abc import Callable

import pytest

from copydesk.jobs.pages.move_page import move_page
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.workspace import Workspace

Make = Callable[[dict[str, bytes]], Workspace]

SPLIT_CONFIG = {
    "docs.json": b'{"navigation": {"$ref": "./nav.json"}, "redirects": {"$ref": "./redirects.json"}}',
    "nav.json": b'{"groups": [{"group": "A", "pages": ["a", {"$ref": "./more.json"}]}]}',
    "more.json": b'{"group": "B", "pages": ["b/setup"]}',
    "redirects.json": b'[{"source": "/x", "destination": "/b/setup"}]',
    "a.mdx": b"[x](/b/setup)\n",
}


def test_files_that_docs_json_refers_to_are_updated(workspace: Make) -> None:
    space = workspace({**SPLIT_CONFIG, "b/setup.mdx": b"x"})
    assert move_page(space, "b/setup.mdx", "b/install.mdx") == ["a.mdx", "more.json", "redirects.json"]
    assert space.read("more.json") == b'{"group": "B", "pages": ["b/install"]}'
    assert space.read("redirects.json") == b'[{"source": "/x", "destination": "/b/install"}]'


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("mkdocs.yml", "redirect_maps:\n  'old.md': 'b/c.md'", "redirect_maps:\n  'old.md': 'd/e.md'"),
        ("mkdocs.yml", "x:\n- redirect_maps:\n    o.md: b/c.md#x", "x:\n- redirect_maps:\n    o.md: d/e.md#x"),
        ("docs/a.md", '--8<-- "docs/b/c.md"', '--8<-- "docs/d/e.md"'),
        ("docs/a.md", '```\n--8<-- "b/c.md"\n```', '```\n--8<-- "d/e.md"\n```'),
    ],
)
def test_redirects_and_snippets_of_mkdocs_are_updated(workspace: Make, path: str, before: str, after: str) -> None:
    space = workspace({"mkdocs.yml": b"site_name: x\n", "docs/b/c.md": b"x", path: before.encode()})
    move_page(space, "docs/b/c.md", "docs/d/e.md")
    assert space.read(path).decode() == after


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (".vitepress/config/fr.ts", "sidebar: [{items: [{link: '/b/c'}]}]", "sidebar: [{items: [{link: '/d/e'}]}]"),
        ("index.md", "<!--@include: ./b/c.md-->", "<!--@include: ./d/e.md-->"),
    ],
)
def test_menus_in_the_configuration_folder_of_vitepress_are_updated(
    workspace: Make, path: str, before: str, after: str
) -> None:
    space = workspace({".vitepress/config/index.ts": b"export default {}", "b/c.md": b"x", path: before.encode()})
    move_page(space, "b/c.md", "d/e.md")
    assert space.read(path).decode() == after


def test_menu_with_a_base_keeps_it(workspace: Make) -> None:
    config = b"export default {themeConfig: {sidebar: [{base: '/b/', items: [{link: 'c'}, {link: 'a'}]}]}}"
    space = workspace({".vitepress/config.ts": config, "b/c.md": b"x", "b/a.md": b"x"})
    assert move_page(space, "b/c.md", "b/d.md") == [".vitepress/config.ts"]
    assert space.read(".vitepress/config.ts") == config.replace(b"'c'", b"'d'")


def test_sidebar_with_a_configured_path_and_links_of_a_docusaurus_site_are_updated(workspace: Make) -> None:
    config = (
        b"module.exports = {plugins: [['x', {id: 'community', path: 'community', sidebarPath: './menu.js'}]],"
        b" themeConfig: {navbar: {items: [{to: '/community/team'}]}}}"
    )
    files = {"docusaurus.config.js": config, "menu.js": b"module.exports = {a: ['team']}", "community/team.md": b"x"}
    page = {"src/pages/index.tsx": b"<Link to='/community/team'>Team</Link>"}
    space = workspace({**files, **page})
    move_page(space, "community/team.md", "community/crew.md")
    assert space.read("menu.js") == b"module.exports = {a: ['crew']}"
    assert b"'/community/crew'" in space.read("docusaurus.config.js")
    assert space.read("src/pages/index.tsx") == b"<Link to='/community/crew'>Team</Link>"


def test_includes_of_mdbook_and_sphinx_are_updated(workspace: Make) -> None:
    book = {"book.toml": b"", "src/a.md": b"{{#include parts/c.md:2:3}}\n", "src/parts/c.md": b"{{#include ../x.rs}}"}
    space = workspace({**book, "src/x.rs": b"x"})
    move_page(space, "src/parts/c.md", "src/c.md")
    assert (space.read("src/a.md"), space.read("src/c.md")) == (b"{{#include c.md:2:3}}\n", b"{{#include x.rs}}")
    page = b".. literalinclude:: b/x.txt\n   :lines: 1\n\n* item\n\n  .. literalinclude:: /b/x.txt\n"
    space = workspace({"docs/conf.py": b"project = 1\n", "docs/index.rst": page, "docs/b/x.txt": b"x"})
    move_page(space, "docs/b/x.txt", "docs/y.txt")
    assert space.read("docs/index.rst") == page.replace(b"b/x.txt", b"y.txt")


def test_protected_file_that_refers_to_the_page_is_named(workspace: Make) -> None:
    files = {".vitepress/config.ts": b"export default {themeConfig: {sidebar: [{link: '/b'}]}}", "b.md": b"x"}

    def refuse_hidden(path: str) -> None:
        if path.startswith("."):
            raise PathRefused(path)

    space = Workspace(workspace(files).tree, refuse_hidden)
    updated = move_page(space, "b.md", "c.md")
    assert (list(updated), updated.protected) == ([], [".vitepress/config.ts"])
