"""The mechanic on forms of real sites: links in docstrings and templates, labels, options of commands, licenses."""

import pytest

from copydesk.jobs.checks import check
from tests.jobs.agent.mechanic.test_mechanic import Make, run_mechanic

MKDOCS = {
    "mkdocs.yml": b"site_name: x\nnav:\n  - index.md\n  - guide/plugins.md\n  - guide/tools.md\n",
    "docs/index.md": b"# Home\n",
    "docs/guide/plugins.md": b"# Plugins\n\n::: app.plugins\n",
    "docs/guide/tools.md": b"# Tools\n",
    "app/plugins.py": b'"""See [events](plugins.md#events), [tools](tools.md) or `plugins.md`."""\n',
    "app/client.py": b'"""See [events][1] and [tools](/guide/tools).\n\n[1]: /guide/plugins/#events\n"""\n',
    "docs/overrides/main.html": b'<a href="{{ \'guide/plugins/\'|url }}">P</a>\n<a href="/guide/tools/">T</a>\n',
}
SPHINX = {
    "docs/conf.py": b"project = 'x'\n",
    "docs/index.rst": b"Home\n====\n\n.. toctree::\n\n   user/start\n   user/more\n",
    "docs/user/start.rst": b".. _start-here:\n\nStart\n=====\n",
    "docs/user/more.rst": b"More\n====\n\n:ref:`start-here`\n",
    "docs/_templates/sidebar.html": b"{{ pathto('user/start') }}\n{{ pathto('user') }}\n",
    "app/client.py": b'"""Connects.\n\nSee :doc:`/user/start`, :doc:`first steps <start>` and :doc:`restart`.\n"""\n',
}
VITEPRESS = {
    "docs/.vitepress/config.ts": b"export default { title: 'x' }\n",
    "docs/.vitepress/theme/Home.vue": b'<p>\n<a href="/guide/start">S</a>\n<a href="/guide/started">T</a>\n</p>\n',
    "docs/index.md": b"# Home\n",
    "docs/guide/start.md": b"# Start\n",
}


@pytest.mark.parametrize(
    ("files", "page", "places"),
    [
        (MKDOCS, "docs/guide/plugins.md", "app/client.py:3, app/plugins.py:1, docs/overrides/main.html:1"),
        (SPHINX, "docs/user/start.rst", "app/client.py:3, docs/_templates/sidebar.html:1"),
        (VITEPRESS, "docs/guide/start.md", "docs/.vitepress/theme/Home.vue:2"),
    ],
)
@pytest.mark.parametrize("prompt", ["Move {} to docs/moved{}", "Delete the page {} with its links"])
def test_links_in_docstrings_and_templates_are_named(
    workspace: Make, files: dict[str, bytes], page: str, places: str, prompt: str
) -> None:
    space = workspace(files)
    summary = run_mechanic(space, prompt.format(page, page[page.rindex(".") :])).summary
    assert f"A person must update the links to it in {places}." in summary
    assert not space.exists(page)


@pytest.mark.deep
def test_search_in_too_much_source_code_says_so(workspace: Make) -> None:
    big = {f"app/data{n}.py": b"x = 1\n" * 700_000 for n in range(13)}
    summary = run_mechanic(workspace({**SPHINX, **big}), "Move docs/user/more.rst to docs/more.rst").summary
    assert "the links to it in source code (only the first 50 MB of it were searched)." in summary


def test_page_without_links_in_sources_needs_no_person(workspace: Make) -> None:
    summary = run_mechanic(workspace(SPHINX), "Move docs/user/more.rst to docs/more.rst").summary
    assert "person" not in summary


def test_broken_table_of_contents_and_labels_are_fixed(workspace: Make) -> None:
    space = workspace(
        {
            **SPHINX,
            "docs/index.rst": b"Home\n====\n\n.. toctree::\n\n   start\n   User <user/mores>\n",
            "docs/user/more.rst": b"More\n====\n\n:ref:`start_here`, :ref:`Elsewhere <nowhere>`\n",
        }
    )
    summary = run_mechanic(space, "Fix all broken links.").summary
    assert space.read("docs/index.rst").endswith(b"\n   user/start\n   User <user/more>\n")
    assert space.read("docs/user/more.rst").endswith(b":ref:`start-here`, :ref:`Elsewhere <nowhere>`\n")
    assert "Fixed 3 links in 2 files." in summary
    assert "no single target is clear: docs/user/more.rst:4 nowhere." in summary


def test_link_by_source_name_starts_from_the_folder_of_its_page(workspace: Make) -> None:
    files = {**MKDOCS, "docs/guide/tools.md": b"# Tools\n\n[p](../plugins.md), [p](../plugins/)\n"}
    space = workspace(files)
    assert [finding.message for finding in check(space).old] == [
        "The link to `../plugins.md` is broken: the target does not exist."
    ]
    run_mechanic(space, "Fix all broken links.")
    assert space.read("docs/guide/tools.md") == b"# Tools\n\n[p](plugins.md), [p](../plugins/)\n"


def test_word_in_an_icon_name_is_no_navigation_plugin(workspace: Make) -> None:
    config = b"theme:\n  icon:\n    repo: fontawesome/brands/git\nnav:\n  - index.md\n"
    space = workspace({"mkdocs.yml": config, "docs/index.md": b"# Home\n"})
    space.write("docs/new.md", b"# New\n")
    report = check(space)
    assert report.not_judged == ()
    assert [(finding.rule, finding.path) for finding in report.introduced] == [("orphan", "docs/new.md")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A theme.\n\nPass -e/--theme-dir or --no-theme.\n", "A skin.\n\nPass -e/--theme-dir or --no-theme.\n"),
        ("The theme--a theme.\n", "The skin--a skin.\n"),
        (
            "Set theme.[name] of the theme.\n\n[name]: a.md\n",
            "Set theme.[name] of the skin.\n\n[name]: a.md\n",
        ),
        ("A theme.[^1]\n\n[^1]: x\n", "A skin.[^1]\n\n[^1]: x\n"),
        ("(the-theme)=\n# A theme\n\n{ref}`the-theme`\n", "(the-theme)=\n# A skin\n\n{ref}`the-theme`\n"),
        ("Equals (theme)=(x), a theme.\n", "Equals (skin)=(x), a skin.\n"),
    ],
)
def test_options_labels_and_linked_names_stay(workspace: Make, before: str, after: str) -> None:
    space = workspace({"a.md": before.encode()})
    run_mechanic(space, "replace theme with skin")
    assert space.read("a.md").decode() == after


def test_option_is_replaced_when_the_prompt_names_it(workspace: Make) -> None:
    space = workspace({"a.md": b"Pass --theme.\n"})
    run_mechanic(space, "replace “--theme” with “--skin”")
    assert space.read("a.md") == b"Pass --skin.\n"


LICENSE_SITE = {
    "mkdocs.yml": b"site_name: x\nnav:\n  - index.md\n  - about/license.md\n",
    "docs/index.md": b"# Home\n\n[terms](about/license.md)\n",
    "docs/about/license.md": b"# License\n\n[home](../index.md)\n",
}


def test_license_page_moves_and_is_deleted_by_its_whole_path(workspace: Make) -> None:
    space = workspace(LICENSE_SITE)
    run_mechanic(space, "Move docs/about/license.md to docs/license.md")
    assert space.read("docs/license.md") == b"# License\n\n[home](index.md)\n"
    assert space.read("docs/index.md") == b"# Home\n\n[terms](license.md)\n"
    run_mechanic(space, "Delete docs/license.md with its links")
    assert space.read("docs/index.md") == b"# Home\n\nterms\n"
    assert space.read("mkdocs.yml") == b"site_name: x\nnav:\n  - index.md\n"
    space = workspace(LICENSE_SITE)
    run_mechanic(space, "replace home with start")
    assert space.read("docs/about/license.md") == b"# License\n\n[start](../index.md)\n"


def test_license_page_is_added_to_the_navigation(workspace: Make) -> None:
    space = workspace({**LICENSE_SITE, "mkdocs.yml": b"site_name: x\nnav:\n  - index.md\n"})
    run_mechanic(space, "Add the page docs/about/license.md to the navigation after docs/index.md")
    assert space.read("mkdocs.yml") == b"site_name: x\nnav:\n  - index.md\n  - about/license.md\n"


def test_redirect_that_could_not_be_added_is_reported(workspace: Make) -> None:
    for page in ("docs/about/license.md", "docs/old.md"):
        space = workspace({**LICENSE_SITE, "docs/old.md": b"# Old\n"})
        summary = run_mechanic(space, f"Delete {page} and redirect it to docs/index.md").summary
        assert "No redirect was added" in summary


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("See [the old one][Old], [old] or [`old`][old].\n\n[old]: old.md 'T'\n[b]: b.md\n", None),
        ("- [Old][x]\n- [B](b.md)\n\n[x]: <old.md#a>\n", "- [B](b.md)\n\n"),
        ("A [long\ntext][x].\n\n[x]: old.md\n", "A long\ntext.\n\n"),
        ("`[x]` [x](b.md) [x] [y][x]\n\n```\n[x]\n```\n[x]: old.md\n", "`[x]` [x](b.md) x y\n\n```\n[x]\n```\n"),
        ("A [long\n  `[text]`](old.md)\nand [x\n\ny] [z](old.md).\n", "A long\n  `[text]`\nand [x\n\ny] z.\n"),
        ("See {doc}`old` or {doc}`the other <old>`.\n", "See Old page or the other.\n"),
    ],
)
def test_deletion_removes_definitions_and_roles_of_myst(workspace: Make, before: str, after: str | None) -> None:
    space = workspace(
        {"docs/index.md": before.encode(), "docs/old.md": b"# Old page\n", "docs/conf.py": b"", "docs/b.md": b""}
    )
    summary = run_mechanic(space, "Delete the page docs/old.md with its links").summary
    expected = "See the old one, old or `old`.\n\n[b]: b.md\n" if after is None else after
    assert space.read("docs/index.md").decode() == expected
    assert "person" not in summary


def test_label_that_is_defined_twice_or_used_by_an_image_needs_a_person(workspace: Make) -> None:
    for text in (b"[x]\n\n[x]: old.md\n[X]: b.md\n", b"![x]\n\n[x]: old.md\n"):
        space = workspace({"docs/index.md": text, "docs/old.md": b"# Old\n", "docs/b.md": b""})
        summary = run_mechanic(space, "Delete the page docs/old.md with its links").summary
        assert "Needs a person, because the link is a part of something else: docs/index.md:3." in summary
        assert space.read("docs/index.md") == text


def test_deletion_removes_links_by_label(workspace: Make) -> None:
    old = b".. _top:\n.. _first:\n\n===\nOld\n===\n\n.. _second:\n\nMore\n----\n\n.. _both:\n\nText\n"
    text = b":ref:`top`, :ref:`the *second* <Second>`, :ref:`second`, :ref:`both`, :ref:`third`\n\n.. _both:\n\n"
    text += b"* :ref:`first`\n"
    space = workspace({"docs/conf.py": b"", "docs/index.rst": text, "docs/old.rst": old, "docs/b.md": b"{ref}`top`\n"})
    summary = run_mechanic(space, "Delete the page docs/old.rst with its links").summary
    after = b"Old, the *second*, More, :ref:`both`, :ref:`third`\n\n.. _both:\n\n"
    assert (space.read("docs/index.rst"), space.read("docs/b.md")) == (after, b"Old\n")
    assert "person" not in summary


def test_link_to_a_label_without_a_title_needs_a_person(workspace: Make) -> None:
    old = b"Old\n===\n\n.. _here:\n\nText\n"
    space = workspace({"docs/conf.py": b"", "docs/index.rst": b":ref:`here`\n", "docs/old.rst": old})
    assert "something else: docs/index.rst:1." in run_mechanic(space, "Delete the page docs/old.rst").summary


DOCUSAURUS = {
    "docusaurus.config.js": b"module.exports = {presets: [['classic', {docs: {sidebarPath: './sidebars.js'}}]]}\n",
    "sidebars.js": b"module.exports = {docs: [\n  'usage/code-splitting',\n  'usage/about',\n]}\n",
    "docs/usage/CodeSplitting.md": b"---\nid: code-splitting\n---\n\n# Splitting\n",
    "docs/usage/about.md": b"---\nid: about\n---\n\n[s](/docs/usage/code-splitting#x), [s](./CodeSplitting.md)\n",
    "docs/start/intro.md": b"[a](/docs/usage/about), [a](../usage/about), [a](../usage/about.md)\n",
}


def test_page_of_docusaurus_keeps_its_id_when_it_moves(workspace: Make) -> None:
    space = workspace(DOCUSAURUS)
    run_mechanic(space, "Move docs/usage/CodeSplitting.md into the docs/start folder")
    assert b"'start/code-splitting',\n" in space.read("sidebars.js")
    after = b"[s](/docs/start/code-splitting#x), [s](../start/CodeSplitting.md)\n"
    assert space.read("docs/usage/about.md").endswith(after)


def test_new_name_of_a_page_with_an_id_changes_no_address(workspace: Make) -> None:
    space = workspace(DOCUSAURUS)
    run_mechanic(space, "Move docs/usage/about.md to docs/start/about-usage.md")
    assert b"'start/about',\n" in space.read("sidebars.js")
    links = space.read("docs/start/intro.md")
    assert links == b"[a](/docs/start/about), [a](about-usage.md), [a](about-usage.md)\n"


def test_page_with_an_id_is_listed_after_another_and_its_address_is_named(workspace: Make) -> None:
    space = workspace({**DOCUSAURUS, "docs/usage/Cache.md": b"---\nid: caching\n---\n\n# Cache\n"})
    run_mechanic(space, "Add the page docs/usage/Cache.md to the sidebar after docs/usage/CodeSplitting.md")
    assert b"  'usage/code-splitting',\n  'usage/caching',\n" in space.read("sidebars.js")
    summary = run_mechanic(space, "Delete the page docs/usage/CodeSplitting.md with its links").summary
    assert "Its address /usage/code-splitting no longer exists." in summary
    assert b"code-splitting" not in space.read("sidebars.js") + space.read("docs/usage/about.md")


FOLDER_CONFIG = {
    "docs/.vitepress/config.ts": b"export default { title: 'x' }\n",
    "docs/config.ts": b"export default defineAdditionalConfig({themeConfig: {sidebar: [\n"
    b"  { text: 'A', link: '/guide/a' },\n  { text: 'B', link: '/guide/b' }\n]}})\n",
    "docs/guide/a.md": b"# A\n",
    "docs/guide/b.md": b"# B\n",
}


def test_menu_in_a_configuration_of_a_folder_is_read(workspace: Make) -> None:
    space = workspace(FOLDER_CONFIG)
    space.delete("docs/guide/a.md")
    finding = check(space).introduced[0]
    message = "The navigation entry `/guide/a` points to a page that does not exist."
    assert (finding.path, finding.line, finding.message) == ("docs/config.ts", 2, message)


def test_menu_that_a_program_of_a_folder_computes_is_not_judged(workspace: Make) -> None:
    computed = b"export default defineAdditionalConfig({themeConfig: {sidebar: {'/guide/': {items: guide()}}}})\n"
    space = workspace(
        FOLDER_CONFIG | {"docs/config.ts": computed, "docs/other/config.ts": b"export const sidebar = 1\n"}
    )
    space.delete("docs/guide/a.md")
    paths = {(each.rule, each.path) for each in check(space).not_judged}
    assert ("navigation", "docs/config.ts") in paths
    assert not any(path == "docs/other/config.ts" for _, path in paths)
