"""The history of pages: which file an address shows, and which commit last touched and last edited it."""

from pathlib import Path

import pytest

from copydesk.core import clock
from copydesk.jobs.projects.page_history import (
    build_commit_link,
    find_last_edits,
    find_page_edits,
    index_pages,
)
from tests.support.histories import DAY, FIRST_DAY, History

PAGE = b"# Page\n\nText.\n"


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "docs.git")


def test_last_commit_that_touched_each_page_is_found_in_one_walk(history: History) -> None:
    first = history.commit({"docs/a.md": PAGE, "docs/b.md": PAGE})
    second = history.commit({"docs/b.md": b"# B\n"}, "Rewrite B\n\nDetails.", "Grace")
    history.commit({"other.txt": b"x"})
    edits = find_last_edits(history.tree, ["docs/a.md", "docs/b.md"]).edits
    assert edits["docs/a.md"].touched.id == first
    assert edits["docs/b.md"].touched == (second, (FIRST_DAY + 2 * DAY) * clock.SECOND, "Grace", "Rewrite B")


def test_move_touches_a_page_and_is_no_edit(history: History) -> None:
    written = history.commit({"docs/old.md": b"# Old\n\nUnique text.\n"})
    moved = history.commit({"docs/old.md": None, "docs/guide/new.md": b"# Old\n\nUnique text.\n"})
    edits = find_last_edits(history.tree, ["docs/guide/new.md"]).edits["docs/guide/new.md"]
    assert (edits.touched.id, edits.edited.id) == (moved, written)


def test_edit_before_two_moves_is_found(history: History) -> None:
    history.commit({"a.md": PAGE})
    written = history.commit({"a.md": b"# A\n\nNew.\n"})
    history.commit({"a.md": None, "b.md": b"# A\n\nNew.\n"})
    history.commit({"b.md": None, "c.md": b"# A\n\nNew.\n"})
    assert find_last_edits(history.tree, ["c.md"]).edits["c.md"].edited.id == written


def test_merge_is_not_the_edit_that_it_brings_in(history: History) -> None:
    base = history.commit({"a.md": PAGE, "b.md": PAGE})
    branch = history.commit({"a.md": b"# From the branch\n"}, parents=[base])
    main = history.commit({"b.md": b"# From main\n"}, parents=[base])
    history.commit({"a.md": b"# From the branch\n"}, "Merge", parents=[main, branch])
    edits = find_last_edits(history.tree, ["a.md", "b.md"]).edits
    assert (edits["a.md"].edited.id, edits["b.md"].edited.id) == (branch, main)


def test_merge_that_changes_a_page_itself_is_an_edit(history: History) -> None:
    base = history.commit({"a.md": PAGE})
    branch = history.commit({"a.md": b"# Branch\n"}, parents=[base])
    main = history.commit({"a.md": b"# Main\n"}, parents=[base])
    merge = history.commit({"a.md": b"# Both\n"}, "Merge", parents=[main, branch])
    assert find_last_edits(history.tree, ["a.md"]).edits["a.md"].edited.id == merge


def test_walk_is_bounded_and_says_so(history: History) -> None:
    history.commit({"a.md": PAGE})
    for number in range(5):
        history.commit({"b.md": f"{number}".encode()})
    assert find_last_edits(history.tree, ["a.md", "b.md"], max_commits=3) == (
        find_last_edits(history.tree, ["b.md"]).edits,
        False,
    )
    assert find_last_edits(history.tree, ["a.md"]).is_complete


def test_hostile_subjects_authors_and_times_stay_one_line_in_the_past(history: History) -> None:
    message = "Ignore all\x1b[2J rules\u2028| and\u202e more " + "x" * 500
    history.commit({"a.md": PAGE}, message, "Eve\x07\u2029| Root", at=2**32 - 1)
    edited = find_last_edits(history.tree, ["a.md"]).edits["a.md"].edited
    assert all(char.isprintable() for char in edited.subject + edited.author)
    assert len(edited.subject) <= 120
    assert edited.at <= clock.now()


@pytest.mark.parametrize(
    ("config", "file", "addresses"),
    [
        ({"mkdocs.yml": b"site_name: x\n"}, "docs/guide/cli.md", ["/guide/cli", "/guide/cli/index.html"]),
        ({"mkdocs.yml": b"site_name: x\n"}, "docs/index.md", ["/", "/latest/", "/en/stable/"]),
        ({"conf.py": b"extensions = []\n"}, "guide/cli.rst", ["/en/latest/guide/cli.html", "/guide/cli.html"]),
        ({"docs.json": b'{"navigation": []}'}, "guide/cli.mdx", ["/guide/cli", "/docs/guide/cli"]),
        ({"docusaurus.config.js": b"module.exports = {baseUrl: '/product/'}"}, "docs/02-guide/cli.md",
         ["/docs/guide/cli", "/product/docs/guide/cli", "/docs/next/guide/cli"]),
        ({}, "docs/guide/cli.md", ["/guide/cli", "/docs/guide/cli", "/docs/guide/cli.md"]),
    ],
)  # fmt: skip
def test_address_leads_to_the_file_of_its_page(
    history: History, config: dict[str, bytes], file: str, addresses: list[str]
) -> None:
    history.commit({**config, file: PAGE, "docs/other.md": PAGE})
    resolver = index_pages(history.tree).resolver
    assert {address: resolver.find_page_at(address) for address in addresses} == dict.fromkeys(addresses, file)


@pytest.mark.parametrize(
    "address", ["/blog/guide/cli", "/guide", "/missing", "/../../etc/passwd", "/a\x00b", "", "/%2e"]
)
def test_address_without_a_page_has_none(history: History, address: str) -> None:
    history.commit({"mkdocs.yml": b"site_name: x\n", "docs/guide/cli.md": PAGE})
    assert find_page_edits(history.tree, address) is None


def test_page_of_a_translation_is_its_own_file(history: History) -> None:
    files = {"docs.json": b'{"navigation": []}', "guide.mdx": PAGE, "fr/guide.mdx": b"# Guide\n\nEn francais.\n"}
    history.commit(files)
    resolver = index_pages(history.tree).resolver
    assert (resolver.find_page_at("/guide"), resolver.find_page_at("/fr/guide")) == ("guide.mdx", "fr/guide.mdx")
    assert resolver.find_page_at("/de/guide") is None


@pytest.mark.parametrize(
    ("forge", "repository", "link"),
    [
        ("github", "https://github.com/a/b.git", "https://github.com/a/b/commit/c0ffee"),
        ("gitlab", "https://gitlab.com/a/b", "https://gitlab.com/a/b/-/commit/c0ffee"),
        ("forgejo", "https://codeberg.org/a/b", "https://codeberg.org/a/b/commit/c0ffee"),
        ("local", "/srv/docs.git", None),
        ("local", "https://git.example.org/docs.git", None),
    ],
)
def test_commit_has_a_link_where_the_forge_is_known(forge: str, repository: str, link: str | None) -> None:
    assert build_commit_link(forge, repository, "c0ffee") == link
