"""A rule that cannot judge a part of a change says so, with the reason, and never "passed"."""

from typing import NamedTuple

import pytest

from copydesk.jobs.checks import check, format_for_api, format_for_model
from tests.jobs.conftest import MakeWorkspace


class BlindSpot(NamedTuple):
    """A small site, a page that a job adds to it, and the rule that cannot judge the page."""

    files: dict[str, bytes]
    page: str
    text: bytes
    rule: str
    reason: str


MKDOCS = {"docs/index.md": b"# Home\n"}
HOOKS = {**MKDOCS, "mkdocs.yml": b"site_name: x\nhooks:\n  - hooks.py\n", "docs/b.md": b"# B\n"}
MINTLIFY = {"docs.json": b'{"navigation": {"pages": ["index"]}}', "index.mdx": b"# Home\n"}
DOCUSAURUS = {"docusaurus.config.js": b"module.exports = {}", "docs/intro.md": b"# Intro\n"}
VITEPRESS = {"docs/.vitepress/config.ts": b"export default {}", "docs/index.md": b"# Home\n"}
SPHINX = {"docs/conf.py": b"project = 'x'\n", "docs/index.rst": b"Home\n====\n"}
MDBOOK = {"book.toml": b"", "src/SUMMARY.md": b"[a](a.md)\n[new](new.md)\n", "src/a.md": b"# A\n"}
BLIND_SPOTS = {
    "mkdocs plugin adds pages": BlindSpot(
        {**MKDOCS, "mkdocs.yml": b"site_name: x\nplugins:\n  - gen-files\n"},
        "docs/new.md",
        b"[x](reference/api.md)\n",
        "link",
        "gen-files in mkdocs.yml adds pages",
    ),
    "mkdocs hooks add anchors": BlindSpot(
        HOOKS, "docs/new.md", b"[x](b.md#option)\n", "anchor", "hooks in mkdocs.yml may add anchors"
    ),
    "mkdocs hooks replace shortcodes": BlindSpot(
        HOOKS, "docs/new.md", b"<!-- md:option x -->\n[x](#option)\n", "anchor", "hooks in mkdocs.yml may add anchors"
    ),
    "mkdocs macros": BlindSpot(
        {**MKDOCS, "mkdocs.yml": b"site_name: x\n"},
        "docs/new.md",
        b"{{ table() }}\n\n[x](#row)\n",
        "anchor",
        "the page contains macros of a template",
    ),
    "mkdocs absolute address": BlindSpot(
        {**MKDOCS, "mkdocs.yml": b"site_name: x\n"},
        "docs/new.md",
        b"[x](/app/login)\n",
        "link",
        "the address may belong to another application",
    ),
    "mkdocs navigation of a plugin": BlindSpot(
        {**MKDOCS, "mkdocs.yml": b"plugins:\n  - literate-nav\nnav:\n  - index.md\n"},
        "docs/new.md",
        b"# New\n",
        "orphan",
        "literate-nav in the configuration",
    ),
    "mintlify reference without a file": BlindSpot(
        {**MINTLIFY, "docs.json": b'{"navigation": {"$ref": "./nav.json"}}'},
        "new.mdx",
        b"[x](/missing)\n",
        "link",
        "docs.json refers to `./nav.json`, which cannot be read",
    ),
    "mintlify pages of an API": BlindSpot(
        {**MINTLIFY, "docs.json": b'{"api": {"openapi": "x.json"}, "navigation": {"pages": ["index"]}}'},
        "new.mdx",
        b"[x](/api-reference/users)\n",
        "link",
        "a build creates pages below this address",
    ),
    "mintlify markup": BlindSpot(
        MINTLIFY, "new.mdx", b"{{ x }}\n<Card>\n", "mdx", "the page contains macros of a template"
    ),
    "docusaurus plugin adds pages": BlindSpot(
        {**DOCUSAURUS, "docusaurus.config.js": b"module.exports = {plugins: ['docusaurus-plugin-typedoc']}"},
        "docs/new.md",
        b"[x](./api/users)\n",
        "link",
        "typedoc in docusaurus.config.js adds pages",
    ),
    "docusaurus computed sidebar": BlindSpot(
        {**DOCUSAURUS, "sidebars.js": b"module.exports = {docs: pages.map((page) => page.id)}"},
        "docs/new.md",
        b"# New\n",
        "navigation",
        "the menu is computed by a program",
    ),
    "docusaurus version that is not built": BlindSpot(
        {**DOCUSAURUS, "versioned_docs/version-1.0/intro.md": b"# Old\n"},
        "docs/new.md",
        b"[x](/docs/1.0/intro)\n",
        "link",
        "versions.json does not list this version",
    ),
    "docusaurus component": BlindSpot(
        {**DOCUSAURUS, "src/components/Table.tsx": b"x"},
        "docs/new.mdx",
        b"import Table from '@site/src/components/Table';\n\n[x](#row)\n",
        "anchor",
        "the page includes files that are not read",
    ),
    "vitepress rewrites": BlindSpot(
        {**VITEPRESS, "docs/.vitepress/config.ts": b"export default {rewrites: {'a/:x': 'b/:x'}}"},
        "docs/new.md",
        b"[x](/b/missing)\n",
        "link",
        "`rewrites` in the VitePress configuration",
    ),
    "vitepress computed sidebar": BlindSpot(
        {**VITEPRESS, "docs/.vitepress/config.ts": b"export default {themeConfig: {sidebar: makeSidebar()}}"},
        "docs/new.md",
        b"# New\n",
        "navigation",
        "the menu is computed by a program",
    ),
    "sphinx labels of other projects": BlindSpot(
        {**SPHINX, "docs/conf.py": b"project = 'x'\nextensions = ['sphinx.ext.intersphinx']\n"},
        "docs/new.rst",
        b":orphan:\n\n:ref:`elsewhere`\n",
        "anchor",
        "intersphinx in conf.py adds labels",
    ),
    "sphinx generated pages": BlindSpot(
        {**SPHINX, "docs/conf.py": b"project = 'x'\nextensions = ['autoapi.extension']\n"},
        "docs/new.rst",
        b":orphan:\n\n:doc:`autoapi/index`\n",
        "link",
        "autoapi in conf.py adds pages",
    ),
    "sphinx autosummary": BlindSpot(
        {**SPHINX, "docs/conf.py": b"project = 'x'\nextensions = ['sphinx.ext.autosummary']\n"},
        "docs/new.rst",
        b":doc:`generated/x`\n\n.. autosummary::\n   :toctree: generated\n\n   x\n",
        "link",
        "autosummary may create pages",
    ),
    "sphinx pattern in a table of contents": BlindSpot(
        {**SPHINX, "docs/index.rst": b"Home\n====\n\n.. toctree::\n   :glob:\n\n   *\n"},
        "docs/new.rst",
        b"New\n===\n",
        "orphan",
        "a table of contents lists pages by pattern",
    ),
    "mdbook address outside the book": BlindSpot(
        MDBOOK, "src/new.md", b"[x](../other/page.html)\n", "link", "the address is outside this site"
    ),
    "mdbook included text": BlindSpot(
        {**MDBOOK, "src/part.txt": b"x"},
        "src/new.md",
        b"{{#include part.txt}}\n\n[x](#row)\n",
        "anchor",
        "the page includes files that are not read",
    ),
    "jekyll": BlindSpot(
        {"_config.yml": b"title: x\n", "index.md": b"# Home\n"},
        "new.md",
        b"[x](guide/)\n",
        "link",
        "templates of Jekyll may add pages",
    ),
    "hugo": BlindSpot(
        {"hugo.toml": b"title = 'x'\n", "content/_index.md": b"# Home\n"},
        "content/new.md",
        b"[x](guide.md)\n",
        "link",
        "templates of Hugo may add pages",
    ),
    "two generators": BlindSpot(
        {"docs/conf.py": b"project = 'x'\n", "docs/docs.json": b'{"navigation": {}}', "docs/index.md": b"# Home\n"},
        "docs/new.md",
        b"[x](guide.md)\n",
        "link",
        "several generators share the folder",
    ),
    "unknown generator": BlindSpot(
        {"package.json": b"{}", "docs/index.md": b"# Home\n"},
        "docs/new.md",
        b"[x](/guide)\n",
        "link",
        "no known generator builds this page",
    ),
    "ignored file": BlindSpot(
        {**MKDOCS, "mkdocs.yml": b"site_name: x\n", ".gitignore": b"generated/\n"},
        "docs/new.md",
        b"![x](generated/chart.png)\n",
        "image",
        "git ignores it",
    ),
    "asciidoc": BlindSpot(
        {"docs/index.adoc": b"= Home\n"}, "docs/new.adoc", b"link:gone.adoc[x]\n", "link", "AsciiDoc"
    ),
    "very long page": BlindSpot(
        {**MKDOCS, "mkdocs.yml": b"site_name: x\n"},
        "docs/new.md",
        b"[x](gone.md)\n" + b"text\n" * 110_000,
        "link",
        "more than 512,000 characters",
    ),
    "partial": BlindSpot(
        {**DOCUSAURUS}, "docs/_part.md", b"[x](#row)\n", "anchor", "a page that includes this one may have the anchor"
    ),
}


@pytest.mark.parametrize("spot", BLIND_SPOTS.values(), ids=BLIND_SPOTS.keys())
def test_rule_that_cannot_see_does_not_pass(spot: BlindSpot, workspace: MakeWorkspace) -> None:
    edited = workspace(spot.files)
    edited.write(spot.page, spot.text)
    report = check(edited)
    assert [each for each in report.introduced if each.rule == spot.rule] == []
    entry = next(entry for entry in format_for_api(report) if entry["name"] == spot.rule)
    assert entry["status"] == "not_judged"
    assert spot.reason in entry["reason"]
    assert entry["notJudged"][0]["message"]
    assert "Not judged" in format_for_model(report)


def test_reference_that_was_on_the_page_before_is_not_a_part_of_the_change(workspace: MakeWorkspace) -> None:
    edited = workspace({"mkdocs.yml": b"site_name: x\n", "docs/a.md": b"[x](/app/login)\n"})
    edited.write("docs/a.md", b"[x](/app/login)\n\nMore text.\n")
    assert check(edited).not_judged == ()


def test_silenced_rule_is_not_listed_as_not_judged(workspace: MakeWorkspace) -> None:
    edited = workspace({"mkdocs.yml": b"site_name: x\n", "docs/a.md": b"x\n"})
    edited.write("docs/a.md", b"[x](/app/login)\n")
    assert check(edited, ignored=["link:docs/*"]).not_judged == ()


def test_failed_rule_still_says_what_it_could_not_judge(workspace: MakeWorkspace) -> None:
    edited = workspace({"mkdocs.yml": b"site_name: x\n", "docs/a.md": b"x\n"})
    edited.write("docs/a.md", b"[x](/app/login) [y](gone.md)\n")
    entry = format_for_api(check(edited))[0]
    assert (entry["status"], entry["introduced"], len(entry["notJudged"])) == ("failed", 1, 1)
