"""Each rule says how much of the change it judged, and a rule with nothing to judge is not listed."""

import pytest

from copydesk.jobs.checks import check, format_for_api
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace

SITE = {
    "mkdocs.yml": b"site_name: X\nnav: [index.md, a.md, b.md]\n",
    "docs/index.md": b"# Home\n\n[a](a.md#one) [b](b.md) ![i](i.png)\n",
    "docs/a.md": b"---\ntitle: A\n---\n\n## One\n\n[home](index.md)\n",
    "docs/b.md": b"# B\n\n[one](a.md#one) [two](a.md#one)\n\n```\nx\n```\n",
    "docs/i.png": b"",
}


def _count(edited: Workspace, **options: object) -> dict[str, int]:
    entries = format_for_api(check(edited, **options))  # type: ignore[arg-type]
    return {entry["name"]: entry["judged"] for entry in entries}


def _edit(workspace: MakeWorkspace, **changes: str) -> Workspace:
    edited = workspace(SITE)
    for name, text in changes.items():
        edited.write(f"docs/{name}.md", text.encode())
    return edited


def test_words_alone_leave_nothing_to_judge(workspace: MakeWorkspace) -> None:
    assert _count(_edit(workspace, index="# Home\n\nMore words. [a](a.md#one) [b](b.md) ![i](i.png)\n")) == {}


def test_only_what_the_change_adds_is_counted(workspace: MakeWorkspace) -> None:
    added = "[a](a.md#one) [b](b.md) ![i](i.png)\n[b](b.md) [x](a.md) [y](b.md#b) [z](#home) ![j](i.png)\n"
    assert _count(_edit(workspace, index=f"# Home\n\n{added}")) == {"link": 3, "anchor": 2, "image": 1}


def test_reference_that_a_deleted_page_breaks_was_judged(workspace: MakeWorkspace) -> None:
    edited = workspace(SITE)
    edited.delete("docs/a.md")
    report = check(edited)
    found = sorted((each.rule, each.path) for each in report.introduced)
    assert found == [
        ("link", "docs/b.md"),
        ("link", "docs/b.md"),
        ("link", "docs/index.md"),
        ("navigation", "mkdocs.yml"),
    ]
    assert dict(report.judged) == {"link": 3, "navigation": 1, "unknown-name": 0}


def test_anchors_of_a_page_with_other_headings_are_counted(workspace: MakeWorkspace) -> None:
    assert _count(_edit(workspace, a="---\ntitle: A\n---\n\n## One\n\n## Two\n\n[home](index.md)\n")) == {"anchor": 3}


def test_new_page_counts_its_fields_fences_and_place_in_the_navigation(workspace: MakeWorkspace) -> None:
    edited = _edit(workspace, new="---\ntitle: New\ntags: [x]\n---\n\n[b](b.md)\n\n```\nx\n```\n")
    edited.write("mkdocs.yml", b"site_name: X\nnav: [index.md, a.md, b.md, new.md]\n")
    expected = {"link": 1, "front-matter": 2, "fence": 1, "navigation": 1, "orphan": 1}
    assert _count(edited) == expected
    assert _count(edited, required_fields=["title", "description"]) == {**expected, "front-matter": 3}


def test_moved_page_counts_all_its_references_and_those_to_it(workspace: MakeWorkspace) -> None:
    edited = _edit(workspace, index="# Home\n\n[a](sub/a.md#one) [b](b.md) ![i](i.png)\n")
    edited.delete("docs/a.md")
    edited.write("docs/sub/a.md", b"---\ntitle: A\n---\n\n## One\n\n[home](../index.md)\n")
    edited.write("docs/b.md", b"# B\n\n[one](sub/a.md#one) [two](sub/a.md#one)\n\n```\nx\n```\n")
    edited.write("mkdocs.yml", b"site_name: X\nnav: [index.md, sub/a.md, b.md]\n")
    assert _count(edited) == {"link": 4, "anchor": 3, "fence": 1, "navigation": 1, "orphan": 1}


def test_what_could_not_be_judged_is_not_counted(workspace: MakeWorkspace) -> None:
    edited = _edit(workspace, index="# Home\n\n[a](a.md) [b](b.md) ![i](i.png) [app](/app/login) [b](b.md)\n")
    entries = {entry["name"]: entry for entry in format_for_api(check(edited))}
    assert (entries["link"]["status"], entries["link"]["judged"]) == ("not_judged", 2)


def test_silenced_rule_or_page_is_not_counted(workspace: MakeWorkspace) -> None:
    edited = _edit(workspace, index="# Home\n\n[x](a.md) [y](#home)\n", a="## One\n\n[b](b.md)\n")
    assert _count(edited) == {"link": 2, "anchor": 1}
    assert _count(edited, ignored=["link"]) == {"anchor": 1}
    assert _count(edited, ignored=["link:docs/index.md"]) == {"link": 1, "anchor": 1}


def test_names_and_pages_of_components_are_counted(workspace: MakeWorkspace) -> None:
    sources = {f"src/part_{number}.py": b"dry_run = retries = 1\n" for number in range(20)}
    edited = workspace({**sources, "docs.json": b'{"navigation": {"pages": ["index"]}}', "index.mdx": b"# Home\n"})
    edited.write("index.mdx", b"# Home\n\n<Note>`dry_run` and `--dry-run`</Note>\n\n```yaml\nretries: 2\n```\n")
    assert _count(edited) == {"mdx": 1, "fence": 1, "unknown-name": 3}


@pytest.mark.parametrize("line", ["[a](a.md)", "[a]: a.md", '<a href="a.md">a</a>', "{doc}`a`"])
def test_every_syntax_of_a_link_is_one_link(workspace: MakeWorkspace, line: str) -> None:
    edited = workspace({"conf.py": b"extensions = ['myst_parser']\n", "index.md": b"# X\n", "a.md": b"# A\n"})
    edited.write("index.md", f"# X\n\n{line}\n".encode())
    assert _count(edited)["link"] == 1
