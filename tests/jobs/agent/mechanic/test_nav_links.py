"""Fixing links also fixes the entries of navigation files, and lists each one that it leaves with its line."""

import pytest

from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.agent.mechanic.test_mechanic import Make, run_mechanic

PAGES = {"docs/index.md": b"# Home\n", "docs/guide/install.md": b"# Install\n", "docs/guide/faq.md": b"# FAQ\n"}
MKDOCS = b"""site_name: x
nav:
  - index.md
  - Install: guide/intsall.md
  - "guide/fqa.md"
  - Gone: guide/nowhere.md
"""
LEFT = "Needs a person, because no single target is clear: "


def test_entries_of_mkdocs_are_fixed_and_the_others_listed(workspace: Make) -> None:
    space = workspace({**PAGES, "mkdocs.yml": MKDOCS})
    done = run_mechanic(space, "Fix all broken links.")
    fixed = MKDOCS.replace(b"intsall.md", b"install.md").replace(b"fqa.md", b"faq.md")
    assert space.changes() == {"mkdocs.yml": fixed}
    assert "Fixed 2 links in 1 file." in done.summary
    assert f"{LEFT}mkdocs.yml:6 guide/nowhere.md." in done.summary


def test_entry_of_a_page_that_is_listed_already_is_left(workspace: Make) -> None:
    nav = b"nav:\n  - index.md\n  - guide/install.md\n  - guide/faq.md\n  - guide/instal.md\n"
    space = workspace({**PAGES, "mkdocs.yml": nav})
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {}
    assert f"{LEFT}mkdocs.yml:5 guide/instal.md." in done.summary


def test_pages_of_docs_json_are_fixed(workspace: Make) -> None:
    config = b'{"navigation": {"groups": [{"group": "G", "pages": ["index", "guide/intsall", "guide/gone"]}]}}\n'
    space = workspace({"docs.json": config, "index.mdx": b"# H\n", "guide/install.mdx": b"# I\n"})
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {"docs.json": config.replace(b"intsall", b"install")}
    assert f"{LEFT}docs.json:1 guide/gone." in done.summary


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sidebars.js", b"module.exports = {\n  docs: ['index', 'guide/intsall',\n 'guide/gone'],\n};\n"),
        ("sidebars.ts", b"export default {\n  docs: [{type: 'doc', id: 'guide/intsall'},\n 'guide/gone'],\n};\n"),
        ("sidebars.json", b'{"docs":\n["guide/intsall",\n"guide/gone"]}\n'),
    ],
)
def test_pages_of_sidebars_are_fixed(workspace: Make, name: str, text: bytes) -> None:
    space = workspace({**PAGES, "docusaurus.config.js": b"module.exports = {};\n", name: text})
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {name: text.replace(b"intsall", b"install")}
    assert f"{LEFT}{name}:3 guide/gone." in done.summary


def test_sidebar_of_a_version_gets_the_page_of_that_version(workspace: Make) -> None:
    sidebar = b'{"docs": ["guide/intsall"]}\n'
    versioned = {"versions.json": b'["1.0"]', "versioned_docs/version-1.0/guide/install.mdx": b"# I\n"}
    names = ("sidebars.json", "versioned_sidebars/version-1.0-sidebars.json")
    config = {"docusaurus.config.js": b"module.exports = {};\n", **dict.fromkeys(names, sidebar)}
    space = workspace({**PAGES, **versioned, **config})
    run_mechanic(space, "Fix all broken links.")
    assert space.changes() == dict.fromkeys(names, sidebar.replace(b"intsall", b"install"))


def test_computed_sidebar_is_named(workspace: Make) -> None:
    sidebar = b"const pages = require('./pages');\nmodule.exports = {docs: [...pages, 'guide/gone']};\n"
    space = workspace({**PAGES, "docusaurus.config.js": b"module.exports = {};\n", "sidebars.js": sidebar})
    done = run_mechanic(space, "Fix all broken links.")
    assert "1 navigation file because the menu is computed by a program (sidebars.js:1)" in done.summary


def test_entry_of_a_protected_file_is_listed_for_a_person(workspace: Make) -> None:
    config = b"export default {\n themeConfig: { sidebar: [\n  {text: 'I', link: '/guide/instal'}] } }\n"
    space = Workspace(workspace({**PAGES, "docs/.vitepress/config.mts": config}).tree, refuse_protected)
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {}
    left = "Needs a person, because jobs may not change the file: docs/.vitepress/config.mts:3 /guide/instal."
    assert left in done.summary


def test_summary_of_a_book_is_fixed_but_lists_no_page_twice(workspace: Make) -> None:
    summary = b"# Summary\n\n- [I](intsall.md)\n- [F](faq.md)\n- [Q](fqa.md)\n- [G](gone.md)\n"
    space = workspace(
        {"book.toml": b"[book]\n", "src/SUMMARY.md": summary, "src/install.md": b"# I\n", "src/faq.md": b"# F\n"}
    )
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {"src/SUMMARY.md": summary.replace(b"intsall", b"install")}
    assert f"{LEFT}src/SUMMARY.md:5 fqa.md, src/SUMMARY.md:6 gone.md." in done.summary


def test_table_of_contents_is_fixed_and_the_others_listed(workspace: Make) -> None:
    index = b"H\n=\n\n:doc:`guide/intsall`\n\n.. toctree::\n\n   guide/intsall\n   guide/instal\n   guide/gone\n"
    space = workspace(
        {"docs/conf.py": b"project = 'x'\n", "docs/index.rst": index, "docs/guide/install.rst": b"I\n=\n"}
    )
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {"docs/index.rst": index.replace(b"intsall", b"install")}
    assert f"{LEFT}docs/index.rst:9 guide/instal, docs/index.rst:10 guide/gone." in done.summary


@pytest.mark.parametrize(
    ("place", "is_fixed"), [("in docs", True), ("in docs/guide/", False), ("in docs/guide/faq.md", False)]
)
def test_navigation_is_fixed_with_the_folder_of_its_pages(workspace: Make, place: str, is_fixed: bool) -> None:
    space = workspace({**PAGES, "mkdocs.yml": MKDOCS})
    run_mechanic(space, f"Fix the broken links {place}")
    assert ("mkdocs.yml" in space.changes()) is is_fixed


def test_include_that_is_missing_is_listed(workspace: Make) -> None:
    page = b"A\n=\n\n.. literalinclude:: code/gone.py\n"
    space = workspace({"docs/conf.py": b"project = 'x'\n", "docs/index.rst": page})
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {}
    assert f"{LEFT}docs/index.rst:4 code/gone.py." in done.summary


def test_navigation_file_that_cannot_be_read_is_named(workspace: Make) -> None:
    space = workspace({**PAGES, "mkdocs.yml": b"nav:\n  - a: [\n"})
    done = run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {}
    assert "mkdocs.yml:3: The file is not valid YAML" in done.summary
    assert "No broken link was found" not in done.summary


def test_links_of_a_page_that_is_a_program_are_fixed_where_they_are_repeated(workspace: Make) -> None:
    page = b'export default () => <p><a href="/guide/intsall"/><a href="/guide/intsall"/></p>;\n'
    config = b"module.exports = {presets: [['classic', {docs: {routeBasePath: '/'}}]]};\n"
    space = workspace({**PAGES, "docusaurus.config.js": config, "src/pages/a.js": page})
    run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {"src/pages/a.js": page.replace(b"intsall", b"install")}
