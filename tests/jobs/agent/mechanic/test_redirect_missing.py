"""Redirects for missing pages: only where the history or a unique name says which page was meant."""

from pathlib import Path

import pygit2
import pytest
from pygit2.enums import FileMode

from copydesk.core.text.reader_data import quote_reader_data
from copydesk.jobs.agent.mechanic.instructions import AddRedirects
from copydesk.jobs.agent.mechanic.parsing.prompt_parser import parse_prompt
from copydesk.jobs.pages.missing_addresses import build_redirect_prompt, is_safe_address
from copydesk.jobs.pages.moved_files import find_moved_files
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.agent.mechanic.test_mechanic import run_mechanic
from tests.support.repositories import AUTHOR

GUIDE = b"# Set up\n\n" + b"".join(b"Step %d of the guide.\n" % number for number in range(20))
FILES = {"docs/index.md": b"# Home\n", "docs/start/setup.md": GUIDE, "docs/api/limits.md": b"# Limits\n"}
MINT = b'{\n  "navigation": {\n    "pages": ["docs/index"]\n  }\n}\n'
MKDOCS = b"site_name: S\nplugins:\n  - redirects:\n      redirect_maps:\n        'a.md': 'b.md'\n"
DOCUSAURUS = (
    b"module.exports = {presets: [['classic', {docs: {path: 'docs'}}]], plugins: [\n"
    b"  ['@docusaurus/plugin-client-redirects', {redirects: [\n  ]}],\n]};\n"
)
PROMPT = build_redirect_prompt


@pytest.fixture
def repository(tmp_path: Path) -> pygit2.Repository:
    return pygit2.init_repository(str(tmp_path / "docs.git"), bare=True, initial_head="main")


def commit_files(repository: pygit2.Repository, files: dict[str, bytes]) -> str:
    """Commits exactly these files."""
    index = pygit2.Index()
    for path, data in files.items():
        index.add(pygit2.IndexEntry(path, repository.create_blob(data), FileMode.BLOB))
    parents = [] if repository.head_is_unborn else [repository.head.target]
    return str(
        repository.create_commit("refs/heads/main", AUTHOR, AUTHOR, "Change", index.write_tree(repository), parents)
    )


def open_moved(repository: pygit2.Repository, extra: dict[str, bytes]) -> Workspace:
    """Opens a site whose page docs/setup.md became docs/install.md and then docs/start/setup-guide.md."""
    moved = {path: data for path, data in FILES.items() if path != "docs/start/setup.md"}
    commit_files(repository, {**moved, **extra, "docs/setup.md": GUIDE, "docs/gone.md": b"# Gone\n"})
    commit_files(repository, {**moved, **extra, "docs/install.md": GUIDE + b"More.\n", "docs/gone.md": b"# Gone\n"})
    commit = commit_files(repository, {**moved, **extra, "docs/start/setup-guide.md": GUIDE + b"More.\n"})
    return Workspace(Tree(repository, commit), refuse_protected)


def test_history_follows_a_file_through_all_its_names(repository: pygit2.Repository) -> None:
    tree = open_moved(repository, {}).tree
    assert find_moved_files(tree) == dict.fromkeys(("docs/setup.md", "docs/install.md"), "docs/start/setup-guide.md")


@pytest.mark.parametrize(
    ("config", "text", "addresses", "expected"),
    [
        (
            "docs.json",
            MINT,
            ("/docs/setup", "/docs/install"),
            ['"source": "/docs/setup"', '"destination": "/docs/start/setup-guide"', '"source": "/docs/install"'],
        ),
        ("mkdocs.yml", MKDOCS, ("/setup", "/install"), ["'setup.md': 'start/setup-guide.md'", "'install.md': 'start/"]),
        (
            "_redirects",
            b"/x /y 301\n",
            ("/setup.html",),
            ["/x /y 301\n/setup.html /start/setup-guide 301\n"],
        ),
        ("_redirects", b"", ("/setup",), ["/setup /start/setup-guide 301\n"]),
        ("_redirects", b"/x /y\r\n/z /y", ("/setup",), ["/z /y\r\n/setup /start/setup-guide 301\r\n"]),
        (
            "_redirects",
            b"/x /y 301",
            ("/setup.html",),
            ["/x /y 301\n/setup.html /start/setup-guide 301\n"],
        ),
    ],
)
def test_moved_page_gets_a_redirect_in_the_form_of_the_generator(
    repository: pygit2.Repository, config: str, text: bytes, addresses: tuple[str, ...], expected: list[str]
) -> None:
    vitepress = {"docs/.vitepress/config.mts": b"export default {}\n"} if config == "_redirects" else {}
    workspace = open_moved(repository, {config: text, **vitepress})
    if config == "_redirects":  # protected, unless the project allows it
        workspace = Workspace(workspace.tree)
    for address in addresses:
        finish = run_mechanic(workspace, PROMPT(address))
        assert "The page was moved." in finish.summary
    body = workspace.read(config).decode()
    for part in expected:
        assert part in body
    assert set(workspace.changes()) == {config}


def test_several_redirects_are_added_at_once_and_only_once(repository: pygit2.Repository) -> None:
    workspace = open_moved(repository, {"docs.json": MINT})
    lines = ["/docs/setup (3 readers, from /docs/index)", "/docs/install (2 readers)", "/nothing/like/it (9 readers)"]
    prompt, data = "Add redirects for the missing pages.", quote_reader_data(lines)
    finish = run_mechanic(workspace, prompt, data=data)
    assert workspace.read("docs.json").count(b'"source"') == 2
    assert "1 missing path got no redirect" in finish.summary
    assert "/nothing/like/it" not in finish.summary, "what readers wrote is not published"
    run_mechanic(workspace, prompt, data=data)
    assert workspace.read("docs.json").count(b'"source"') == 2


def test_page_of_the_same_name_is_meant_only_if_it_is_the_only_one(repository: pygit2.Repository) -> None:
    extra = {
        "docs.json": MINT,
        "docs/a/tokens.md": b"# T\n",
        "docs/b/tokens.md": b"# T\n",
        "docs/a/overview.md": b"# O\n",
    }
    workspace = open_moved(repository, extra)
    finish = run_mechanic(workspace, PROMPT("/reference/limits"))
    assert b'"destination": "/docs/api/limits"' in workspace.read("docs.json")
    assert "only page of this name" in finish.summary
    before = workspace.changes()
    for address in ("/reference/tokens", "/reference/overview", "/docs/gone", "/docs/api/limits", "/x"):
        run_mechanic(workspace, PROMPT(address))
        assert workspace.changes() == before, address


def test_docusaurus_config_is_protected_and_says_so(repository: pygit2.Repository) -> None:
    workspace = open_moved(repository, {"docusaurus.config.js": DOCUSAURUS})
    finish = run_mechanic(workspace, PROMPT("/docs/setup"))
    assert workspace.changes() == {}
    assert "docusaurus.config.js, which is protected" in finish.summary
    open_workspace = Workspace(workspace.tree)
    run_mechanic(open_workspace, PROMPT("/docs/setup"))
    assert b'{from: "/docs/setup", to: "/docs/start/setup-guide"}' in open_workspace.read("docusaurus.config.js")


def test_site_without_a_place_for_redirects_is_left_alone(repository: pygit2.Repository) -> None:
    workspace = open_moved(repository, {"mkdocs.yml": b"site_name: S\n"})
    finish = run_mechanic(workspace, PROMPT("/setup"))
    assert workspace.changes() == {}
    assert "does not use the redirects plugin" in finish.summary


@pytest.mark.parametrize(
    "address",
    ["", "/", "x", "//evil.example", "/a//b", "/a/../b", "/a/*", "/:splat", "/a b", "/a\n/b", '/a"b', "/a'b", "/a\\b",
     "https://evil.example/", "/a?x=1", "/a#b", "/%2e%2e/a", "/" + "a" * 301, "/a\u202eb", "/${x}", "/a<b>"],
)  # fmt: skip
def test_hostile_addresses_are_not_safe(address: str) -> None:
    assert not is_safe_address(address)


def test_hostile_addresses_change_nothing(repository: pygit2.Repository) -> None:
    workspace = open_moved(repository, {"_redirects": b"", "docs.json": MINT})
    for address in ("/docs/../setup", "//evil.example/setup", "/*", "/docs/*/limits", "https://evil.example/limits"):
        run_mechanic(workspace, PROMPT(address))
        assert workspace.changes() == {}, address


@pytest.mark.parametrize(
    ("prompt", "addresses"),
    [
        ('Add a redirect for the missing page "/a/b".', ("/a/b",)),
        ("Please add redirects for the missing pages “/a” and “/b”", ("/a", "/b")),
        ("Create redirects for the missing pages /a, /b and /c", ("/a", "/b", "/c")),
    ],
)
def test_prompts_name_missing_pages(prompt: str, addresses: tuple[str, ...]) -> None:
    assert parse_prompt(prompt) == [AddRedirects(addresses)]
