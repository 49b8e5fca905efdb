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


MKDOCS_MAPS = b"""site_name: Docs
plugins:
  - search
  - redirects:
      redirect_maps:
        old.md: index.md
"""
MKDOCS_PLUGIN = b"site_name: Docs\nplugins: {search: {}, redirects: {redirect_maps: {'old.md': 'index.md'}}}\n"


def _with_redirects(*pairs: tuple[str, str], **more: object) -> bytes:
    redirects = [{"source": source, "destination": destination, **more} for source, destination in pairs]
    return json.dumps({**json.loads(DOCS), "redirects": redirects}).encode()


WITHIN = [
    ("docs.json", DOCS, _with_redirects(("/old", "/new"))),
    ("mint.json", DOCS, _with_redirects(("/old", "/new"), permanent=False)),
    ("docs/docs.json", _with_redirects(("/old", "/new")), DOCS),
    ("docs.json", _with_redirects(("/old", "/new")), _with_redirects(("/old", "/guide/new#part"), ("/a", "/"))),
    ("docs.json", DOCS, _with_redirects(("/v1/:slug*", "/v2/:slug*"), ("/old/:a/x", "/new/:a?tab=1"))),
    ("docs.json", DOCS, _with_redirects(("/caf%C3%A9", "/café"), ("/a%20b", "/a-b/"))),
    (
        "docs.json",
        _with_redirects(("/x", "https://other.test/")),
        _with_redirects(("/old", "/new"), ("/x", "https://other.test/")),
    ),
    ("mkdocs.yml", MKDOCS_MAPS, MKDOCS_MAPS + b"        guide/a.md: guide/b.md#part\n"),
    ("mkdocs.yml", MKDOCS_MAPS, MKDOCS_MAPS.replace(b"index.md", b"new.md")),
    ("mkdocs.yml", MKDOCS_PLUGIN, MKDOCS_PLUGIN.replace(b"'old.md'", b"'older.md'")),
    ("mkdocs.yml", b"plugins: [redirects]\n", b"plugins:\n  - redirects:\n      redirect_maps: {a.md: b.md}\n"),
    (
        "public/_redirects",
        b"/x https://other.test/ 301\n",
        b"# Moved\n/a /b\n/x https://other.test/ 301\n/c/* /d/:splat 301\n",
    ),
    ("_redirects", b"", b"/old /new 301!\n"),
]
LEAVING_ADDRESSES = [
    "https://evil.test/",
    "//evil.test",
    "/\\evil.test",
    "\\\\evil.test",
    "/\t/evil.test",
    "/\n/evil.test",
    "/%2Fevil.test",
    "/%2f%2fevil.test",
    "/%5Cevil.test",
    "/%255Cevil.test",
    "/%25252525255Cevil.test",
    "/%09/evil.test",
    "/\uff0fevil.test",
    "/\u2044evil.test",
    "/.//evil.test",
    "/..//evil.test",
    "/%2e%2e/x",
    "/a/../../x",
    "/a//evil.test",
    "/:host",
    "/:slug*",
    "/*",
    "/:a/:b*",
    "//:host/x",
    "https://:host/x",
    "javascript:alert(1)",
    "/\x01javascript:alert(1)",
    " //evil.test",
    "data:text/html,x",
    "evil.test",
    "mailto:a@evil.test",
    '/x"><script>',
    "/a\\..\\evil.test",
    "/@evil.test",
    "",
    "/(.*)",
    "/$1",
    "/{host}",
    "/x?next=//evil.test",
    "/x?next=https://evil.test",
]


@pytest.mark.parametrize(("path", "before", "after"), WITHIN, ids=range(len(WITHIN)))
def test_redirects_within_the_site_are_ordinary_changes(
    workspace: MakeWorkspace, path: str, before: bytes, after: bytes
) -> None:
    assert find_executed_files(workspace({path: before}).tree, {path: after}) == []


@pytest.mark.parametrize("address", LEAVING_ADDRESSES, ids=ascii)
def test_redirect_that_may_leave_the_site_is_flagged(workspace: MakeWorkspace, address: str) -> None:
    before = _with_redirects(("/a", "/b"))
    for after in (_with_redirects(("/a", "/b"), ("/old", address)), _with_redirects(("/a", address))):
        assert find_executed_files(workspace({"docs.json": before}).tree, {"docs.json": after})
        assert find_executed_files(workspace({"docs.json": after}).tree, {"docs.json": before})
    maps = json.dumps({"plugins": [{"redirects": {"redirect_maps": {"old.md": address}}}]}).encode()
    empty = b'{"plugins": [{"redirects": {"redirect_maps": {}}}]}'
    assert find_executed_files(workspace({"mkdocs.yml": empty}).tree, {"mkdocs.yml": maps})


@pytest.mark.parametrize("address", ["https://evil.test/", "//evil.test", "/\\evil.test", "/%5Cevil.test", "/:splat"])
def test_line_of_a_redirects_file_that_may_leave_the_site_is_flagged(workspace: MakeWorkspace, address: str) -> None:
    files = {"_redirects": b"/a /b\n"}
    found = find_executed_files(workspace(files).tree, {"_redirects": f"/a /b\n/x/* {address} 301\n".encode()})
    assert [one.reason for one in found] == ["redirects that may leave the site"]


@pytest.mark.parametrize(
    "entry",
    [
        {"source": "/a", "destination": "/b", "headers": {"Location": "x"}},
        {"source": "/a", "destination": "/b", "permanent": "//evil.test"},
        {"source": "/a", "destination": ["/b"]},
        {"source": "/a"},
        {"$ref": "redirects.json"},
        "/a",
    ],
)
def test_redirect_of_another_form_is_flagged(workspace: MakeWorkspace, entry: object) -> None:
    after = json.dumps({**json.loads(DOCS), "redirects": [entry]}).encode()
    assert find_executed_files(workspace({"docs.json": DOCS}).tree, {"docs.json": after})
    referred = json.dumps({**json.loads(DOCS), "redirects": {"$ref": "redirects.json"}}).encode()
    assert find_executed_files(workspace({"docs.json": DOCS}).tree, {"docs.json": referred})


@pytest.mark.parametrize(
    "after",
    [
        MKDOCS_MAPS + b"  - macros\n",
        MKDOCS_MAPS.replace(b"      redirect_maps:", b"      hook: x.py\n      redirect_maps:"),
        MKDOCS_MAPS.replace(b"old.md: index.md", b"<<: {old.md: https://evil.test/}"),
        MKDOCS_MAPS.replace(b"old.md: index.md", b"old.md: !!python/name:os.system index.md"),
        MKDOCS_MAPS.replace(b"old.md: index.md", b"../../old.md: index.md"),
        MKDOCS_MAPS.replace(b"index.md", b"evil.test"),
    ],
)
def test_other_settings_of_the_redirects_plugin_are_flagged(workspace: MakeWorkspace, after: bytes) -> None:
    assert find_executed_files(workspace({"mkdocs.yml": MKDOCS_MAPS}).tree, {"mkdocs.yml": after})
    plain = b"site_name: Docs\nplugins: [search]\n"
    assert find_executed_files(workspace({"mkdocs.yml": plain}).tree, {"mkdocs.yml": MKDOCS_MAPS})


@pytest.mark.parametrize(
    ("part", "content", "is_executed"),
    [
        ("config/redirects.json", [{"source": "/a", "destination": "https://elsewhere.example/x"}], True),
        ("config/redirects.json", [{"source": "/a", "destination": "/c"}], False),
        ("config/navigation.json", {"pages": ["index", "new"]}, False),
        ("config/more.json", {"integrations": {"ga4": {"measurementId": "G-2"}}}, True),
        ("config/unrelated.json", {"integrations": {}}, False),
    ],
)
def test_part_that_a_reference_adds_to_the_settings_is_judged_like_them(
    workspace: MakeWorkspace, part: str, content: object, is_executed: bool
) -> None:
    settings = {
        "$ref": "./config/more.json",
        "redirects": {"$ref": "./config/redirects.json"},
        "navigation": {"$ref": "./config/navigation.json"},
    }
    files = {
        "docs.json": settings,
        "config/more.json": {"integrations": {"ga4": {"measurementId": "G-1"}}},
        "config/redirects.json": [{"source": "/a", "destination": "/b"}],
        "config/navigation.json": {"pages": ["index"]},
        "config/unrelated.json": {},
    }
    tree = workspace({path: json.dumps(data).encode() for path, data in files.items()}).tree
    found = find_executed_files(tree, {part: json.dumps(content).encode()})
    assert [each.path for each in found] == ([part] if is_executed else [])
