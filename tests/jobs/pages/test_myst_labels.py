"""Labels of MyST look like paths: links to them stay as they are, and links to anchors of pages are judged."""

import pytest

from copydesk.jobs.checks import check
from copydesk.jobs.pages.move_page import move_page
from tests.jobs.conftest import MakeWorkspace

SPHINX = {
    "docs/conf.py": b"extensions = ['myst_parser', 'sphinx.ext.intersphinx']\n",
    "docs/index.md": b"(guides/start)=\n# Home\n",
    "docs/guides/retries.md": (
        b"(guides/retries-label)=\n# Retries\n\n[a](guides/start) [b](Guides/Retries-Label) [c](other/project)"
        b" {ref}`guides/start`\n"
    ),
}


def test_labels_with_a_slash_stay_when_their_page_moves(workspace: MakeWorkspace) -> None:
    space = workspace(SPHINX)
    move_page(space, "docs/guides/retries.md", "docs/retries.md")
    assert space.read("docs/retries.md") == SPHINX["docs/guides/retries.md"]
    assert check(space).introduced == ()


def test_label_that_is_also_the_path_of_a_page_is_a_label(workspace: MakeWorkspace) -> None:
    files = {**SPHINX, "docs/a.md": b"[x](guides/start)\n", "docs/guides/start.md": b"# Start\n"}
    space = workspace(files)
    move_page(space, "docs/guides/start.md", "docs/start.md")
    assert space.read("docs/a.md") == files["docs/a.md"]


@pytest.mark.parametrize(
    ("link", "introduced", "not_judged"),
    [
        (b"[x](index.md#home)", 0, 0),
        (b"[x](index.md#gone)", 1, 0),
        (b"[x](#gone)", 0, 1),
        (b"{ref}`gone`", 0, 1),
        (b"[x](guides/start)", 0, 0),
        (b"[x](guides/gone)", 0, 1),
    ],
)
def test_intersphinx_hides_only_labels_without_a_path(
    link: bytes, introduced: int, not_judged: int, workspace: MakeWorkspace
) -> None:
    space = workspace(SPHINX)
    space.write("docs/new.md", b"---\norphan: true\n---\n\n" + link + b"\n")
    report = check(space)
    assert (len(report.introduced), len(report.not_judged)) == (introduced, not_judged)


def test_doubtful_link_that_the_change_respells_stays_not_judged(workspace: MakeWorkspace) -> None:
    files = {"mkdocs.yml": b"site_name: x\n", "docs/guides/a.md": b"[x](../api/index) [y](/app)\n", "docs/b.md": b"x\n"}
    space = workspace(files)
    assert len(check(space).not_judged) == 2
    move_page(space, "docs/guides/a.md", "docs/a.md")
    assert space.read("docs/a.md") == b"[x](api/index) [y](/app)\n"
    assert [each.subject for each in check(space).not_judged] == ["api/index"]
