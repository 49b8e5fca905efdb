"""The mechanic on what only one generator has: snippets, titles as targets, versions, translations, menus."""

from collections.abc import Callable

from copydesk.jobs.agent.conversation import ToolCall
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.checks import check
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.agent.mechanic.test_mechanic import run_mechanic

Make = Callable[[dict[str, bytes]], Workspace]
SNIPPETS = (
    b"markdown_extensions:\n  - pymdownx.snippets:\n      base_path: [parts]\n"
    b"nav:\n  - index.md\n  - a/page.md\n  - b.md\n"
)
SNIPPET_SITE = {
    "mkdocs.yml": SNIPPETS,
    "docs/index.md": b"# Home\n",
    "docs/a/page.md": b'# Page\n\n--8<-- "part.md"\n',
    "docs/b.md": b"# B\n",
    "parts/part.md": b"See [B](../b.md).\n",
}


def read(space: Workspace, path: str) -> str:
    return space.read(path).decode()


def protect(space: Workspace) -> Workspace:
    return Workspace(space.tree, refuse_protected)


def test_link_of_a_snippet_starts_from_the_page_that_includes_it(workspace: Make) -> None:
    space = workspace(SNIPPET_SITE)
    run_mechanic(space, "Fix all broken links.")
    assert space.changes() == {}
    assert check(space).old == ()
    run_mechanic(space, "Move the page docs/b.md to docs/a/b.md")
    assert read(space, "parts/part.md") == "See [B](b.md).\n"
    assert check(space).introduced == ()


def test_broken_link_of_a_snippet_is_not_judged(workspace: Make) -> None:
    space = workspace({**SNIPPET_SITE, "parts/part.md": b"See [B](../gone.md).\n"})
    summary = run_mechanic(space, "Fix all broken links.").summary
    assert space.changes() == {}
    assert "links of a snippet start from the pages that include it" in summary


def test_deleted_target_of_a_snippet_is_reported(workspace: Make) -> None:
    space = workspace(SNIPPET_SITE)
    space.delete("docs/b.md")
    assert ("link", "parts/part.md") in {(each.rule, each.path) for each in check(space).introduced}


def test_broken_link_prefers_the_page_in_the_folder_that_it_names(workspace: Make) -> None:
    space = workspace(
        {
            "mkdocs.yml": b"site_name: A\n",
            "docs/guides/retries.md": b"# Retries\n",
            "docs/de/retries.md": b"# R\n\n[here](guides/retries.md)\n",
        }
    )
    run_mechanic(space, "Fix all broken links.")
    assert "[here](../guides/retries.md)" in read(space, "docs/de/retries.md")


RST = b"Guide\n=====\n\nSign a request\n--------------\n\nText.\n\nNext\n----\n\nSee `Sign a request`_ and `Next`_.\n"
SPHINX = {"docs/conf.py": b'project = "A"\n', "docs/index.rst": b"A\n=\n\n.. toctree::\n\n   guide\n"}


def test_reference_to_a_title_follows_the_title(workspace: Make) -> None:
    space = workspace({**SPHINX, "docs/guide.rst": RST})
    run_mechanic(space, "Replace “Sign a request” with “Sign every request” on every page.")
    assert "See `Sign every request`_ and `Next`_." in read(space, "docs/guide.rst")
    assert check(space).introduced == ()


def test_reference_to_a_title_that_is_gone_is_reported(workspace: Make) -> None:
    space = workspace({**SPHINX, "docs/guide.rst": RST})
    space.write("docs/guide.rst", RST.replace(b"Sign a request\n--------------", b"Sign it\n-------"))
    [finding] = check(space).introduced
    assert (finding.rule, finding.line) == ("anchor", 12)
    assert "`Sign a request`" in finding.message


def test_names_that_are_defined_otherwise_are_valid(workspace: Make) -> None:
    text = RST + b"\nSee `other`_, `inline`_, `the site`_ and `missing`_.\n\n.. _other: https://a.example\n\n"
    text += b"An _`inline` target. `The site <https://a.example>`_ again.\n"
    space = workspace({**SPHINX, "docs/guide.rst": RST})
    space.write("docs/guide.rst", text)
    report = check(space)
    assert report.introduced == ()
    assert [each.subject for each in report.not_judged] == ["missing"]


DOCUSAURUS = {
    "docusaurus.config.js": b"module.exports = {presets: [['classic', {docs: {sidebarPath: './sidebars.js'}}]]};\n",
    "sidebars.js": b"module.exports = {docs: ['intro', 'a/page']};\n",
    "docs/intro.md": b"# Intro\n\n[Page](/a/page.md)\n",
    "docs/a/page.md": b"# Page\n\n## Part\n",
    "src/pages/index.js": b'export default () => <a href="/docs/a/page#part">Page</a>;\n',
}
VERSIONED = {
    **DOCUSAURUS,
    "versions.json": b'["1.0"]\n',
    "versioned_sidebars/version-1.0-sidebars.json": b'{"docs": ["a/page"]}\n',
    "versioned_docs/version-1.0/a/page.md": b"# Page\n\n## Part\n",
}


def test_address_without_a_version_leads_to_the_last_version(workspace: Make) -> None:
    space = workspace(VERSIONED)
    run_mechanic(space, "Move the page docs/a/page.md to docs/b/page.md")
    assert 'href="/docs/a/page#part"' in read(space, "src/pages/index.js")
    assert "[Page](/b/page.md)" in read(space, "docs/intro.md")
    assert check(space).introduced == ()


def test_address_leads_to_the_current_version_where_the_configuration_says_so(workspace: Make) -> None:
    config = DOCUSAURUS["docusaurus.config.js"].replace(b"docs: {", b"docs: {lastVersion: 'current', ")
    for files in (DOCUSAURUS, {**VERSIONED, "docusaurus.config.js": config}):
        space = workspace(files)
        run_mechanic(space, "Move the page docs/a/page.md to docs/b/page.md")
        assert 'href="/docs/b/page#part"' in read(space, "src/pages/index.js")


def test_anchor_in_a_script_page_follows_its_heading(workspace: Make) -> None:
    space = workspace(DOCUSAURUS)
    run_mechanic(space, "Replace “Part” with “Piece” in docs/a/page.md")
    assert 'href="/docs/a/page#piece"' in read(space, "src/pages/index.js")
    assert check(space).introduced == ()


def test_anchor_in_a_protected_menu_is_named_and_reported(workspace: Make) -> None:
    config = (
        b"export default {themeConfig: {nav: [{text: 'A', link: '/a#part'}], sidebar: [{text: 'A', link: '/a'}]}}\n"
    )
    files = {"docs/.vitepress/config.mts": config, "docs/index.md": b"# Home\n", "docs/a.md": b"# A\n\n## Part\n"}
    space = protect(workspace(files))
    summary = run_mechanic(space, "Replace “Part” with “Piece” in docs/a.md").summary
    assert "A person must update the anchors in docs/.vitepress/config.mts" in summary
    assert [(each.rule, each.path) for each in check(space).introduced] == [("anchor", "docs/.vitepress/config.mts")]


def test_anchor_in_a_redirect_follows_its_heading(workspace: Make) -> None:
    config = b"plugins:\n  - redirects:\n      redirect_maps:\n        'old.md': 'a.md#part'\n"
    space = workspace({"mkdocs.yml": config, "docs/a.md": b"# A\n\n## Part\n", "docs/index.md": b"# Home\n"})
    run_mechanic(space, "Replace “Part” with “Piece” in docs/a.md")
    assert "'old.md': 'a.md#piece'" in read(space, "mkdocs.yml")


def test_translations_of_a_docusaurus_page_move_with_it(workspace: Make) -> None:
    german = "i18n/de/docusaurus-plugin-content-docs/current"
    translations = {f"{german}/a/page.md": b"# Seite\n", f"{german}/intro.md": b"[Seite](a/page.md)\n"}
    space = workspace({**DOCUSAURUS, **translations})
    result = Toolbox(space).call(ToolCall(id="1", name="move", arguments={"path": "docs/a/page.md", "to": "docs/b.md"}))
    assert space.exists(f"{german}/b.md")
    assert not space.exists(f"{german}/a/page.md")
    assert read(space, f"{german}/intro.md") == "[Seite](b.md)\n"
    assert f"{german}/b.md" in result.text
    assert check(space).introduced == ()


def test_links_of_a_home_page_follow_a_move(workspace: Make) -> None:
    home = b"---\nlayout: home\nhero:\n  actions:\n    - text: Go\n      link: /a\n---\n"
    space = workspace(
        {"docs/.vitepress/config.ts": b"export default {}\n", "docs/index.md": home, "docs/a.md": b"# A\n"}
    )
    run_mechanic(space, "Rename the page a.md to b.md")
    assert "link: /b\n" in read(space, "docs/index.md")


def test_move_names_protected_redirects_that_lead_to_the_page(workspace: Make) -> None:
    book = b'[output.html.redirect]\n"/old.html" = "a.html"\n'
    files = {
        "book.toml": book,
        "src/SUMMARY.md": b"- [A](a.md)\n- [C](c.md)\n",
        "src/a.md": b"# A\n",
        "src/c.md": b"# C\n",
    }
    assert (
        "A person must update book.toml"
        in run_mechanic(protect(workspace(files)), "Rename the page a.md to b.md").summary
    )
    assert "book.toml" not in run_mechanic(protect(workspace(files)), "Rename the page c.md to d.md").summary


def test_occurrences_are_counted_in_the_files_that_have_them(workspace: Make) -> None:
    space = workspace({"a.md": b"# Part\n", "b.md": b"[see](a.md#part)\n"})
    assert "Found 1 occurrence in 1 file." in run_mechanic(space, "Replace “Part” with “Piece” in a.md").summary
