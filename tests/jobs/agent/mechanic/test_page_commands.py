"""Deleting a page with its links, and adding a page to the navigation, in the form of each generator."""

from collections.abc import Callable

import pytest

from copydesk.jobs.agent.mechanic.instructions import AddToNavigation, DeletePage, NotUnderstood
from copydesk.jobs.agent.mechanic.parsing.prompt_parser import parse_prompt
from copydesk.jobs.checks import check
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.agent.mechanic.test_mechanic import run_mechanic

Make = Callable[[dict[str, bytes]], Workspace]
OLD = DeletePage("docs/old.md")
NEW = AddToNavigation("docs/new.md")


@pytest.mark.parametrize(
    ("prompt", "instruction"),
    [
        ("Delete the page docs/old.md", OLD),
        ("Remove the page docs/old.md with its links.", OLD),
        ("Please delete docs/old.md and all links to it", OLD),
        ("Can you drop the file “docs/old.md”, and remove its navigation entry and links?", OLD),
        ("Delete docs/old.md, its links and its navigation entry.", OLD),
        ("Get rid of the docs/old.md page, including the links to it.", OLD),
        ("Remove the chapter docs/old.md from the book.", OLD),
        ("Delete docs/old.md and redirect it to docs/new.md", DeletePage("docs/old.md", "docs/new.md")),
        (
            "Delete the page docs/old.md with its links, redirecting to “docs/new.md”",
            DeletePage("docs/old.md", "docs/new.md"),
        ),
        ("Add the page docs/new.md to the navigation", NEW),
        ("List docs/new.md in the sidebar.", NEW),
        ("Add a navigation entry for docs/new.md to the menu", NEW),
        ("Add docs/new.md to the sidebar after docs/start.md", AddToNavigation("docs/new.md", after="docs/start.md")),
        ("Put docs/new.md in the menu under Getting Started", AddToNavigation("docs/new.md", under="Getting Started")),
        ("Add docs/new.md to the “Guides” section of the navigation", AddToNavigation("docs/new.md", under="Guides")),
        (
            "Add docs/new.md to the navigation in mkdocs.yml as “New”, right after “Tokens”.",
            AddToNavigation("docs/new.md", after="Tokens", title="New"),
        ),
    ],
)
def test_word_orders(prompt: str, instruction: DeletePage | AddToNavigation) -> None:
    assert parse_prompt(prompt) == [instruction]


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("Remove the old installation page.", "old"),
        ("Delete all pages that nobody reads.", "all"),
        ("Add a better page to the navigation", "better"),
    ],
)
def test_refusal_quotes_the_word(prompt: str, word: str) -> None:
    refused = parse_prompt(prompt)
    assert isinstance(refused, NotUnderstood)
    assert refused.word == word


LINKS = b'# Home\n\nSee [the *old* page](old.md#a "T"), or [b](b.md).\n\n'
LINKS += b"- [Old](old.md)\n- [Old](old.md): more\n- [B](b.md)\n"
PAGES = {"docs/index.md": LINKS, "docs/old.md": b"# Old page\n\n## A\n", "docs/b.md": b"# B\n"}
LINKS_AFTER = "# Home\n\nSee the *old* page, or [b](b.md).\n\n- Old: more\n- [B](b.md)\n"
MINT = b'{\n  "navigation": {\n    "groups": [\n      {\n'
MINT += (
    b'        "group": "G",\n        "pages": [\n          "docs/index",\n          "docs/old",\n          "docs/b"\n'
)
MINT += b"        ]\n      }\n    ]\n  }\n}\n"
MKDOCS = b"nav:\n  - Home: index.md\n  - Old:\n      - Page: old.md\n  - b.md\n"
SIDEBARS = b"module.exports = {docs: ['index', {type: 'doc', id: 'old', label: 'O'}, 'b']};\n"
CONFIG = b"module.exports = {presets: [['classic', {docs: {sidebarPath: './sidebars.js'}}]]};\n"


def read(space: Workspace, path: str) -> str:
    return space.read(path).decode()


@pytest.mark.parametrize(
    ("files", "nav_path", "removed"),
    [
        pytest.param({"docs.json": MINT}, "docs.json", '          "docs/old",\n', id="docs.json"),
        pytest.param({"mkdocs.yml": MKDOCS}, "mkdocs.yml", "  - Old:\n      - Page: old.md\n", id="mkdocs"),
        pytest.param(
            {"docusaurus.config.js": CONFIG, "sidebars.js": SIDEBARS},
            "sidebars.js",
            "{type: 'doc', id: 'old', label: 'O'}, ",
            id="docusaurus",
        ),
        pytest.param(
            {
                "book.toml": b'[book]\nsrc = "docs"\n',
                "docs/SUMMARY.md": b"- [H](index.md)\n- [O](old.md)\n- [B](b.md)\n",
            },
            "docs/SUMMARY.md",
            "- [O](old.md)\n",
            id="mdbook",
        ),
    ],
)
def test_deleted_page_takes_its_links_and_its_entry_along(
    workspace: Make, files: dict[str, bytes], nav_path: str, removed: str
) -> None:
    space = workspace({**PAGES, **files})
    before = read(space, nav_path)
    run_mechanic(space, "Delete the page docs/old.md with its links.")
    assert not space.exists("docs/old.md")
    assert read(space, "docs/index.md") == LINKS_AFTER
    assert read(space, nav_path) == before.replace(removed, "")
    assert [each for each in check(space).introduced if each.rule != "orphan"] == []


def test_deleted_sphinx_page(workspace: Make) -> None:
    index = b"Home\n====\n\n.. toctree::\n\n   old\n   b\n\nSee :doc:`old` and :doc:`text <old>`.\n\n"
    index += b"* :doc:`old`\n* :doc:`b`\n"
    files = {"docs/conf.py": b'project = "A"\n', "docs/index.rst": index, "docs/old.rst": b"Old page\n========\n"}
    space = workspace({**files, "docs/b.rst": b"B\n=\n"})
    run_mechanic(space, "Delete docs/old.rst and all links to it.")
    assert (
        read(space, "docs/index.rst") == "Home\n====\n\n.. toctree::\n\n   b\n\nSee Old page and text.\n\n* :doc:`b`\n"
    )
    assert check(space).introduced == ()


def test_deleted_page_with_a_redirect_and_a_chapter_with_subchapters(workspace: Make) -> None:
    space = workspace({**PAGES, "docs.json": MINT})
    run_mechanic(space, "Delete docs/old.md and redirect it to docs/b.md")
    assert '"source": "/docs/old",\n      "destination": "/docs/b"' in read(space, "docs.json")
    summary = b"- [H](index.md)\n- [O](old.md)\n  - [B](b.md)\n"
    space = workspace({**PAGES, "book.toml": b'[book]\nsrc = "docs"\n', "docs/SUMMARY.md": summary})
    run_mechanic(space, "Delete docs/old.md")
    assert read(space, "docs/SUMMARY.md") == "- [H](index.md)\n- [O]()\n  - [B](b.md)\n"


def test_link_in_another_form_is_left_to_a_person(workspace: Make) -> None:
    page = b'# A\n\n<Card title="O" href="/docs/old">x</Card>\n'
    space = workspace({"docs.json": MINT, **PAGES, "docs/card.mdx": page})
    summary = run_mechanic(space, "Delete docs/old.md").summary
    assert "Needs a person" in summary
    assert "docs/card.mdx:3" in summary
    assert ("link", "docs/card.mdx") in {(each.rule, each.path) for each in check(space).introduced}


def test_unknown_page_changes_nothing(workspace: Make) -> None:
    space = workspace({"docs/a/x.md": b"# X\n", "docs/b/x.md": b"# X\n"})
    assert "could be any of docs/a/x.md, docs/b/x.md" in run_mechanic(space, "Delete the page x.md").summary
    assert "There is no page “y.md”" in run_mechanic(space, "Delete the page y.md").summary
    assert space.changes() == {}


NEW_PAGE = {"docs/index.md": b"# Home\n", "docs/b.md": b"# B\n", "docs/new.md": b"# New page\n"}
PART = b'{"group": "G", "pages": ["docs/index", "docs/b"]}\n'
SUMMARY = b"# Part\n\n- [B](b.md)\n  - [H](index.md)\n"
MENU = b"export default {themeConfig: {sidebar: [{text: 'B', link: '/b'}]}}\n"


@pytest.mark.parametrize(
    ("files", "nav_path", "place", "old", "new"),
    [
        pytest.param({"docs.json": MINT.replace(b'          "docs/old",\n', b"")}, "docs.json", "under “G”",
                     '"docs/b"\n', '"docs/b",\n          "docs/new"\n', id="docs.json"),
        pytest.param({"docs.json": b'{"navigation": {"groups": [{"$ref": "g.json"}]}}\n', "g.json": PART}, "g.json",
                     "after docs/index.md", '"docs/index", ', '"docs/index", "docs/new", ', id="$ref"),
        pytest.param({"mkdocs.yml": MKDOCS.replace(b"old.md", b"b.md")}, "mkdocs.yml", "after “Home”",
                     "index.md\n", "index.md\n  - New page: new.md\n", id="mkdocs"),
        pytest.param({"mkdocs.yml": MKDOCS.replace(b"old.md", b"b.md").replace(b"  - b.md\n", b"")},
                     "mkdocs.yml", "under Old", "b.md\n", "b.md\n      - New page: new.md\n", id="mkdocs section"),
        pytest.param({"docusaurus.config.js": CONFIG, "sidebars.js": b"module.exports = {docs: ['index', 'b']};\n"},
                     "sidebars.js", "after docs/b.md", "'b'", "'b', 'new'", id="docusaurus"),
        pytest.param({"docs/.vitepress/config.mts": MENU}, "docs/.vitepress/config.mts", "after b.md",
                     "link: '/b'}", "link: '/b'}, { text: 'New page', link: '/new' }", id="vitepress"),
        pytest.param({"book.toml": b'[book]\nsrc = "docs"\n', "docs/SUMMARY.md": SUMMARY},
                     "docs/SUMMARY.md", "after B", "(index.md)\n", "(index.md)\n- [New page](new.md)\n", id="mdbook"),
    ],
)  # fmt: skip
def test_page_is_added_to_the_navigation(
    workspace: Make, files: dict[str, bytes], nav_path: str, place: str, old: str, new: str
) -> None:
    space = workspace({**NEW_PAGE, **files})
    before = read(space, nav_path)
    run_mechanic(space, f"Add the page docs/new.md to the navigation {place}.")
    assert read(space, nav_path) == before.replace(old, new, 1)
    assert list(space.changes()) == [nav_path]
    assert check(space).introduced == ()


def test_page_is_added_to_a_toctree(workspace: Make) -> None:
    index = b"Home\n====\n\n.. toctree::\n   :caption: Guides\n\n   guides/b\n\nText.\n"
    page = b"B\n=\n"
    files = {"docs/conf.py": b'project = "A"\n', "docs/index.rst": index, "docs/guides/b.rst": page}
    space = workspace({**files, "docs/guides/new.rst": page})
    run_mechanic(space, "Add guides/new.rst to the table of contents under Guides")
    assert "   guides/b\n   guides/new\n\nText." in read(space, "docs/index.rst")


def test_protected_menu_and_missing_place_are_explained(workspace: Make) -> None:
    space = Workspace(workspace({**NEW_PAGE, "docs/.vitepress/config.mts": MENU}).tree, refuse_protected)
    summary = run_mechanic(space, "Add docs/new.md to the sidebar after b.md").summary
    assert "A person must add docs/new.md to docs/.vitepress/config.mts" in summary
    space = workspace({**NEW_PAGE, "mkdocs.yml": MKDOCS.replace(b"old.md", b"b.md")})
    assert "does not list “nowhere”" in run_mechanic(space, "Add docs/new.md to the menu after nowhere").summary
    assert "already lists docs/b.md" in run_mechanic(space, "Add docs/b.md to the menu").summary
    assert space.changes() == {}
