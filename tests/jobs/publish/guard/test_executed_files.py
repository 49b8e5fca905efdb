"""Files that builds, hosts and browsers execute are protected, or proposed as a draft that lists them first."""

import json

import pytest

from copydesk.jobs.publish.guard.executed_files import find_executed_files
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.path_rules import PathRefused
from tests.jobs.conftest import MakeWorkspace

PROTECTED = [
    "docs/conf.py", "docs/_ext/hook.py", "main.py", "docusaurus.config.js", "next.config.mjs", "vite.config.cjs",
    "docs/x.config.ts", "book.toml", "static/_redirects", "static/_headers", "netlify.toml", "vercel.json",
    "requirements.txt", "docs-requirements.txt", "docs/requirements-docs.in", "docker-compose.override.yml",
    "compose.yaml", "GNUmakefile", "Makefile", "AGENT.md", "AGENTS.md", "docs/_plugins/x.rb", "filters/x.lua",
]  # fmt: skip
DISGUISES = [
    "docs/CONF.PY", "docs/conf.py.", "docs/conf.py ", "docs/conf.py. .", "docs/conf.py::$DATA", "docs/conf.py:x",
    "docs/\uff43onf.py", "docs/conf\u200b.py", "docs/conf.p\ufe0fy", "Make\u017fcript.py", "\uff2dakefile",
    "docs/\u2024github/x.md", "docs/\uff0ehidden/x.md", "docs/\u200d.github/x.md",
]  # fmt: skip
OPEN = ["docs/requirements.md", "docs/system-requirements.md", "docs/configuration.md", "docs/python.md", "mkdocs.yml"]


@pytest.mark.parametrize("path", [*PROTECTED, *DISGUISES], ids=ascii)
def test_executed_file_is_protected_in_any_spelling(path: str) -> None:
    with pytest.raises(PathRefused, match="protected"):
        refuse_protected(path)
    refuse_protected(path, allowed_patterns=[path.replace("[", "[[]")])


@pytest.mark.parametrize("path", OPEN)
def test_pages_and_site_settings_are_not_protected(path: str) -> None:
    refuse_protected(path)


@pytest.mark.parametrize(
    "name", ["x.html", "x.svg", "x.js", "x.css", "x.tsx", "x.vue", "x.ipynb", "x.njk", "_config.yml"]
)
def test_executed_file_is_found(workspace: MakeWorkspace, name: str) -> None:
    tree = workspace({"docs/page.md": b"# Page\n"}).tree
    found = find_executed_files(tree, {f"docs/{name}": b"words\n", "docs/page.md": b"# New\n"})
    assert [one.path for one in found] == [f"docs/{name}"]
    assert find_executed_files(workspace({f"docs/{name}": b"x"}).tree, {f"docs/{name}": None}) == []


@pytest.mark.parametrize(
    "path", [".copydesk/automations/x.md", ".copydesk/automations/sub/x.txt", ".Copydesk/AUTOMATIONS/x.md"]
)
def test_file_that_defines_an_automation_counts_as_executed_also_when_it_is_deleted(
    workspace: MakeWorkspace, path: str
) -> None:
    tree = workspace({path: b"---\nkind: typos\n---\n", "docs/page.md": b"# Page\n"}).tree
    for data in (b"---\nkind: typos\nmode: merge\n---\n", None):
        found = find_executed_files(tree, {path: data, "docs/page.md": b"# New\n", ".copydesk/AGENTS.md": b"x\n"})
        assert [(one.path, one.reason) for one in found] == [(path, "defines an automation that Copydesk runs")]


MKDOCS = b"""site_name: Docs
theme: {name: material}
markdown_extensions:
  - pymdownx.emoji:
      emoji_index: !!python/name:material.extensions.emoji.twemoji
nav:
  - Home: index.md
"""
DOCS = json.dumps({"name": "Docs", "navigation": {"pages": ["index"]}, "integrations": {"ga4": {"id": "G-1"}}}).encode()
SIDEBARS = b"// The menu.\nmodule.exports = {\n  docs: ['intro', {type: 'category', label: 'A', items: ['a']}],\n};\n"
MENUS = [
    ("mkdocs.yml", MKDOCS, MKDOCS + b"  - Guide: guide.md\n"),
    ("mkdocs.yml", MKDOCS, MKDOCS.replace(b"site_name: Docs", b"site_name: Documentation")),
    ("docs.json", DOCS, DOCS.replace(b'["index"]', b'["index", "guide"]')),
    ("sidebars.js", SIDEBARS, SIDEBARS.replace(b"['a']", b"['a', {type: 'doc', id: 'b'}, 'c']")),
]
BEYOND = [
    ("mkdocs.yml", MKDOCS, MKDOCS + b"extra_javascript: [x.js]\n"),
    ("mkdocs.yml", MKDOCS, MKDOCS.replace(b"twemoji", b"other")),
    ("mkdocs.yml", MKDOCS, MKDOCS + b"plugins: [search]\n"),
    ("mkdocs.yml", MKDOCS, MKDOCS + b"nav: [\n"),
    ("docs.json", DOCS, DOCS.replace(b"G-1", b"G-2")),
    ("docs.json", DOCS, DOCS.replace(b'"integrations"', b'"redirects": [], "integrations"')),
    ("docs.json", DOCS, DOCS[:-1]),
    ("sidebars.js", SIDEBARS, SIDEBARS.replace(b"'a'", b"load()")),
    ("sidebars.js", SIDEBARS, SIDEBARS.replace(b"'a'", b"{type: 'html', value: '<img>'}")),
    ("sidebars.js", SIDEBARS, SIDEBARS.replace(b"'intro'", b"`intro`")),
]


@pytest.mark.parametrize(("path", "before", "after"), MENUS, ids=range(len(MENUS)))
def test_change_of_only_menus_and_titles_is_not_flagged(
    workspace: MakeWorkspace, path: str, before: bytes, after: bytes
) -> None:
    assert find_executed_files(workspace({path: before}).tree, {path: after}) == []


@pytest.mark.parametrize(("path", "before", "after"), BEYOND, ids=range(len(BEYOND)))
def test_change_of_other_settings_is_flagged(workspace: MakeWorkspace, path: str, before: bytes, after: bytes) -> None:
    assert [one.path for one in find_executed_files(workspace({path: before}).tree, {path: after})] == [path]
