"""Only findings that a change introduces count."""

import weakref
from collections.abc import Mapping
from itertools import permutations

import pygit2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.checks import CheckReport, check
from copydesk.jobs.checks.checker import build_edited_snapshot, get_snapshot
from copydesk.jobs.checks.findings import sort_findings
from copydesk.jobs.checks.snapshot import CheckScope, Snapshot
from copydesk.jobs.pages.site.generators import CONFIG_PARSERS, resolve_overlaps
from copydesk.jobs.pages.site.repository_index import RepositoryIndex
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace

SITE = {
    "mkdocs.yml": b"site_name: x\n",
    "docs/index.md": b"# Home\n[a](a.md#one) [gone](gone.md)\n",
    "docs/a.md": b"## One\n[home](index.md#home)\n",
}


def _format_findings(report: CheckReport) -> list[str]:
    return [f"{each.rule} {each.path}:{each.line}" for each in report.introduced]


def test_a_workspace_without_changes_introduces_nothing(workspace: MakeWorkspace) -> None:
    report = check(workspace(SITE))
    assert report.introduced == ()
    assert [each.message for each in report.old] == ["The link to `gone.md` is broken: the target does not exist."]


def test_reverted_change_introduces_nothing(workspace: MakeWorkspace) -> None:
    edited = workspace(SITE)
    edited.delete("docs/a.md")
    assert _format_findings(check(edited)) == ["link docs/index.md:2"]
    edited.write("docs/a.md", SITE["docs/a.md"])
    assert check(edited).introduced == ()


def test_link_whose_anchor_is_still_missing_is_not_fixed(workspace: MakeWorkspace) -> None:
    edited = workspace({**SITE, "docs/index.md": b"# Home\n[a](a.md#nowhere)\n"})
    edited.write("docs/index.md", b"# Home\n[a](a.md#elsewhere)\n")
    report = check(edited)
    assert (_format_findings(report), report.fixed) == (["anchor docs/index.md:2"], ())
    edited.write("docs/index.md", b"# Home\n[a](a.md#one)\n")
    assert [each.rule for each in check(edited).fixed] == ["anchor"]


def test_state_is_freed_without_garbage_collection(workspace: MakeWorkspace) -> None:
    """Each job makes a state, and garbage collections are rare."""
    edited = workspace(SITE)
    edited.write("docs/a.md", b"## Two\n")
    after = weakref.ref(build_edited_snapshot(get_snapshot(CheckScope(), edited.tree), edited))
    assert after() is None


def test_follow_up_is_checked_against_the_base_of_the_job(workspace: MakeWorkspace) -> None:
    """The job's branch already has a finding: it is old relative to the branch, and new relative to the job's base."""
    base, branch = workspace(SITE), workspace({**SITE, "docs/a.md": b"## Two\n"})
    assert check(branch).introduced == ()
    assert _format_findings(check(branch, origin=base.tree)) == ["anchor docs/index.md:2"]


def test_a_second_finding_like_an_old_one_is_new(workspace: MakeWorkspace) -> None:
    edited = workspace(SITE)
    edited.write("docs/index.md", SITE["docs/index.md"] + b"[gone](gone.md)\n")
    report = check(edited)
    assert (len(report.introduced), len(report.old)) == (1, 1)


def test_findings_are_ordered_by_path_and_line(workspace: MakeWorkspace) -> None:
    edited = workspace(SITE)
    edited.write("docs/z.md", b"[x](no.md)\n\n```\n")
    edited.write("docs/b.md", b"[x](no.md)\n![y](no.png)\n")
    found = check(edited).introduced
    assert found == sort_findings(reversed(found))
    assert [each.path for each in found] == ["docs/b.md", "docs/b.md", "docs/z.md", "docs/z.md"]


def test_links_through_a_symbolic_link_or_submodule_are_not_checked(workspace: MakeWorkspace) -> None:
    made = workspace({"a.md": b"[x](linked/b.md) [y](module/c.md) [z](nowhere/d.md)\n"})
    repository = made.tree.repository
    builder = repository.TreeBuilder(repository[made.tree.root].peel(pygit2.Tree))
    builder.insert("linked", repository.create_blob(b"elsewhere"), 0o120000)
    builder.insert("module", pygit2.Oid(hex="1" * 40), 0o160000)
    author = pygit2.Signature("Ada", "ada@example.com", 1, 0)
    commit = repository.create_commit(None, author, author, "Links", builder.write(), [])
    report = check(Workspace(type(made.tree)(repository, str(commit))))
    assert [each.message for each in report.old] == ["The link to `nowhere/d.md` is broken: the target does not exist."]


@pytest.mark.parametrize("ignored", [["link"], ["link:docs/*"], ["*:docs/index.md"]])
def test_a_rule_can_be_silenced(ignored: list[str], workspace: MakeWorkspace) -> None:
    assert check(workspace(SITE), ignored=ignored).old == ()


def test_order_of_site_configurations_does_not_matter() -> None:
    configurations = ["docs/conf.py", "docs/_config.yml", "docs/docs.json", "mkdocs.yml", "book.toml", "a/mkdocs.yml"]
    text = {"docs/docs.json": '{"navigation": {}}'}
    made = (CONFIG_PARSERS[path.rpartition("/")[2]](path, text.get(path, "project = 1")) for path in configurations)
    sites = [site for site in made if site]
    assert len(sites) == len(configurations)
    assert all(resolve_overlaps(order) == resolve_overlaps(sites) for order in permutations(sites))


NAMES = st.sampled_from(
    ["docs/a.md", "docs/b.md", "docs/index.md", "docs/guide/index.md", "docs/guide/a.md", "README.md", "docs/guide.md"]
)
LINES = st.sampled_from(
    [
        "## One",
        "## Two",
        "[x](a.md#one)",
        "[x](../a.md)",
        "[x](guide/)",
        "[x](/guide/a)",
        "[x](b)",
        "[x](#two)",
        "[x](./guide#one)",
        "[x](../)",
        "---\nslug: /b\n---",
        "(label)=",
        "{ref}`label`",
        "![x](x.png)",
    ]
)
PAGES = st.dictionaries(NAMES, st.lists(LINES, max_size=4).map("\n".join), max_size=5)
CONFIGS = st.sampled_from(
    [
        {"mkdocs.yml": "nav:\n- a.md\n- guide/a.md\n"},
        {"docs/docs.json": '{"navigation": {"pages": ["a", "guide/index"]}, "redirects": [{"source": "/b"}]}'},
        {"docs/docs.json": '{"navigation": {"pages": ["a"]}}'},
        {"docs/.vitepress/config.js": "export default {}"},
        {"docusaurus.config.js": "module.exports = {}", "sidebars.js": "module.exports = {a: ['a', 'guide/a']}"},
        {"docs/conf.py": "project = 'x'"},
        {},
    ]
)


def _encode_files(*parts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for part in parts for path, text in part.items()}


@given(PAGES, CONFIGS, PAGES, CONFIGS)
def test_incremental_check_finds_the_same_as_a_full_check(
    workspace: MakeWorkspace,
    before: dict[str, str],
    config: dict[str, str],
    after: dict[str, str],
    other: dict[str, str],
) -> None:
    edited = workspace(_encode_files({"x.txt": "x"}, config, before))
    edited.apply(dict.fromkeys(edited.paths()))
    edited.apply({**_encode_files(other, after)})
    scope = CheckScope()
    near = build_edited_snapshot(get_snapshot(scope, edited.tree), edited)
    afresh = Snapshot(scope, RepositoryIndex(edited.tree, near.index.files, edited.read))
    assert sort_findings(near.findings) == sort_findings(afresh.findings)
    assert {page: each.broken for page, each in near.findings_by_page.items()} == {
        page: each.broken for page, each in afresh.findings_by_page.items()
    }
