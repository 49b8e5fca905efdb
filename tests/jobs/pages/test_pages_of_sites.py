"""Files named like those of a repository, such as license.md, are pages where a site shows them."""

import pytest

from copydesk.jobs.checks import check
from copydesk.jobs.pages.move_page import move_page
from copydesk.jobs.pages.page_types import is_page
from copydesk.jobs.pages.site.repository_index import list_pages
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.agent.mechanic.test_mechanic import run_mechanic
from tests.jobs.conftest import Files, MakeWorkspace

NAMES = ("license.md", "licences.md", "requirements.md", "agents.md", "notice.md", "robots.md", "claude.md")
SITES: dict[str, Files] = {
    "mkdocs": {"mkdocs.yml": b"site_name: x\n"},
    "sphinx": {"docs/conf.py": b"extensions = ['myst_parser']\n"},
    "docusaurus": {"docusaurus.config.js": b"module.exports = {}\n"},
    "vitepress": {"docs/.vitepress/config.ts": b"export default {}\n"},
    "mdbook": {"book.toml": b'[book]\nsrc = "docs"\n'},
}


@pytest.mark.parametrize("site", SITES)
def test_links_of_a_page_named_like_a_repository_file_are_judged(site: str, workspace: MakeWorkspace) -> None:
    space = workspace({**SITES[site], "docs/index.md": b"# Home\n"})
    for name in NAMES:
        space.write(f"docs/about/{name}", b"[x](gone.md)\n")
    broken = [each.path for each in check(space).introduced if each.rule == "link"]
    assert broken == sorted(f"docs/about/{name}" for name in NAMES)


@pytest.mark.parametrize("site", SITES)
def test_links_of_a_page_named_like_a_repository_file_follow_a_move(site: str, workspace: MakeWorkspace) -> None:
    space = workspace({**SITES[site], "docs/a.md": b"# A\n", "docs/license.md": b"[a](a.md)\n"})
    move_page(space, "docs/a.md", "docs/b.md")
    assert space.read("docs/license.md") == b"[a](b.md)\n"


def test_replacing_text_finds_such_pages_and_leaves_protected_ones(workspace: MakeWorkspace) -> None:
    page = b"# Terms\n\nAcme Robots\n"
    files = {**SITES["mkdocs"], "docs/robots.md": page, "docs/AGENTS.md": page, "LICENSE.md": page}
    space = Workspace(workspace(files).tree, refuse_protected)
    run_mechanic(space, "Replace “Acme” with “Tidewater”")
    assert {path: data for path, data in space.changes().items() if data} == {
        "docs/robots.md": b"# Terms\n\nTidewater Robots\n"
    }


@pytest.mark.parametrize(
    "path", ["LICENSE.md", "packages/x/LICENSE.md", "docs/requirements.txt", "docs/robots.txt", "docs/CMakeLists.txt"]
)
def test_such_a_file_outside_of_a_site_and_plain_text_are_no_pages(path: str, workspace: MakeWorkspace) -> None:
    space = workspace({"docusaurus.config.js": b"module.exports = {}\n", "docs/index.md": b"# Home\n", path: b"x\n"})
    assert list_pages(space) == ["docs/index.md"]
    assert not is_page(path)


def test_such_a_file_becomes_a_page_with_its_site(workspace: MakeWorkspace) -> None:
    space = workspace({"docs/index.md": b"# Home\n", "docs/license.md": b"[x](gone.md)\n"})
    assert check(space).old == ()
    space.write("mkdocs.yml", b"site_name: x\n")
    assert [each.path for each in check(space).introduced] == ["docs/license.md"]
