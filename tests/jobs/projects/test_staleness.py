"""Stale pages: a source that the page speaks about changed after the page's last edit, and nothing else counts."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from copydesk.core import clock
from copydesk.jobs.projects.staleness.comparison import (
    CitedSource,
    Comparison,
    PageQuestion,
    SourceTree,
    compare_pages,
)
from tests.support.cpu_budget import limit_cpu
from tests.support.histories import History

PAGE = b"# Run\n\nUse `--dry-run` to try it. The default of `max_retries` is 3.\n"
CLI = b'parser.add("--dry-run", help="tries it")\nparser.add("--verbose")\n'
SETTINGS = b"max_retries = 3\nother = 1\n"
CODE_ADDRESS = "https://github.com/example/product"


class Pair:
    """A documentation repository and the repository of its product."""

    def __init__(self, folder: Path) -> None:
        self.docs = History(folder / "docs.git")
        self.code = History(folder / "code.git")

    def write_code(self, files: Mapping[str, bytes | None], message: str = "Change") -> str:
        self.code.day = self.docs.day = max(self.code.day, self.docs.day)
        commit = self.code.commit(files, message)
        self.docs.day = self.code.day
        return commit

    def write_docs(self, files: Mapping[str, bytes | None], message: str = "Change") -> str:
        self.docs.day = max(self.code.day, self.docs.day)
        commit = self.docs.commit(files, message)
        self.code.day = self.docs.day
        return commit

    def compare(self, *addresses: str, since: int = 0, citations: tuple[CitedSource, ...] = ()) -> Comparison:
        contexts = [SourceTree("code", CODE_ADDRESS, self.code.tree)]
        questions = [PageQuestion(address, since) for address in addresses or ("/run",)]
        return compare_pages(self.docs.tree, "", questions, contexts, citations)

    def list_changes(self, *addresses: str, since: int = 0) -> list[tuple[str, str, tuple[str, ...], list[str]]]:
        return [
            (page.address, source.path, source.names, [commit.id for commit in source.commits])
            for page in self.compare(*addresses, since=since).stale
            for source in page.sources
        ]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path)
    pair.write_code({"src/cli.py": CLI, "src/settings.py": SETTINGS, "src/other.py": b"unrelated = 1\n"})
    pair.write_docs({"mkdocs.yml": b"site_name: x\n", "docs/run.md": PAGE, "docs/index.md": b"# Home\n"})
    return pair


def test_renamed_flag_makes_its_page_stale(pair: Pair) -> None:
    renamed = pair.write_code({"src/cli.py": CLI.replace(b"--dry-run", b"--preview")}, "Rename the flag")
    assert pair.list_changes() == [("/run", "src/cli.py", ("--dry-run",), [renamed])]
    [page] = pair.compare("/run").stale
    assert page.sources[0].commits[0].subject == "Rename the flag"
    assert page.edits.path == "docs/run.md"


def test_new_default_makes_its_page_stale(pair: Pair) -> None:
    changed = pair.write_code({"src/settings.py": SETTINGS.replace(b"3", b"5")})
    assert pair.list_changes() == [("/run", "src/settings.py", ("max_retries",), [changed])]


def test_page_that_was_edited_afterwards_is_not_stale(pair: Pair) -> None:
    pair.write_code({"src/cli.py": CLI.replace(b"--dry-run", b"--preview")})
    pair.write_docs({"docs/run.md": PAGE + b"\nReviewed.\n"})
    assert pair.compare().stale == []


def test_page_that_only_moved_afterwards_is_stale(pair: Pair) -> None:
    renamed = pair.write_code({"src/cli.py": CLI.replace(b"--dry-run", b"--preview")})
    pair.write_docs({"docs/run.md": None, "docs/guide/start.md": PAGE})
    assert pair.list_changes("/guide/start") == [("/guide/start", "src/cli.py", ("--dry-run",), [renamed])]
    assert pair.compare("/run").edits == {}


def test_change_that_is_known_already_does_not_count_again(pair: Pair) -> None:
    first = pair.write_code({"src/cli.py": CLI.replace(b"tries", b"attempts")})
    assert [commits for *_, commits in pair.list_changes()] == [[first]]
    second = pair.write_code({"src/cli.py": CLI.replace(b"--dry-run", b"--preview")})
    [commit] = [commit for page in pair.compare().stale for commit in page.sources[0].commits if commit.id == first]
    assert [commits for *_, commits in pair.list_changes(since=commit.at)] == [[second]]


@pytest.mark.parametrize(
    "files",
    [
        {"src/other.py": b"unrelated = 2\n"},
        {"src/cli.py": CLI.replace(b"--verbose", b"--loud")},
        {"tests/test_cli.py": b"run('--dry-run')\n"},
        {"src/cli.py": CLI + b'print("see --dry-run")\n'},
        {"src/cli.py": b"    " + CLI},
        {"src/cli.py": b"# moved\n", "src/options.py": CLI},
        {"README.md": b"Use --dry-run.\n"},
        {"src/cli.py": CLI, ".github/run.yml": b"run: --dry-run\n"},
    ],
    ids=["unrelated", "other-flag", "test", "new-use", "indented", "moved", "readme", "workflow"],
)
def test_other_changes_make_no_page_stale(pair: Pair, files: Mapping[str, bytes]) -> None:
    pair.write_code(files)
    assert pair.compare().stale == []
    pair.write_code({"src/settings.py": SETTINGS.replace(b"3", b"5")})
    assert len(pair.compare().stale) == 1


def test_name_that_many_files_use_says_nothing(pair: Pair) -> None:
    uses = {f"src/use{number}.py": b"max_retries = 3\n" for number in range(12)}
    pair.write_code(uses)
    pair.write_code({"src/settings.py": SETTINGS.replace(b"3", b"5")})
    assert pair.compare().stale == []


def test_name_on_many_pages_says_nothing_about_one(pair: Pair) -> None:
    pair.write_docs({f"docs/page{number}.md": b"# Page\n\nSet `max_retries`.\n" for number in range(12)})
    pair.write_code({"src/settings.py": SETTINGS.replace(b"3", b"5")})
    assert pair.compare("/run", "/page1").stale == []


def test_linked_and_named_files_are_sources(pair: Pair) -> None:
    link = f"[code]({CODE_ADDRESS}/blob/main/src/other.py#L1)"
    pair.write_docs(
        {"docs/link.md": f"# Link\n\nSee {link}.\n".encode(), "docs/name.md": b"# X\n\nSee `src/other.py`.\n"}
    )
    pair.write_docs({"docs/elsewhere.md": b"# X\n\n[x](https://github.com/another/product/blob/main/src/other.py)\n"})
    changed = pair.write_code({"src/other.py": b"unrelated = 2\n"})
    assert pair.list_changes("/link", "/name", "/elsewhere", "/run") == [
        ("/link", "src/other.py", (), [changed]),
        ("/name", "src/other.py", (), [changed]),
    ]


def test_cited_lines_that_are_gone_make_the_page_stale(pair: Pair) -> None:
    head = pair.code.tree.commit
    citation = CitedSource("docs/index.md", "code", head, "src/other.py", "1")
    pair.write_code({"src/other.py": b"# a line before\nunrelated = 1\n"})
    assert pair.compare("/", citations=(citation,)).stale == []
    pair.write_code({"src/other.py": b"unrelated = 9\n"})
    [page] = pair.compare("/", citations=(citation,)).stale
    assert [source.path for source in page.sources] == ["src/other.py"]
    unknown = citation._replace(commit="0" * 40)
    assert pair.compare("/", citations=(unknown, citation._replace(lines="x"))).stale == []


def test_code_beside_the_pages_is_a_source(tmp_path: Path) -> None:
    history = History(tmp_path / "product.git")
    code = {f"src/part{number}.py": b"part = 1\n" for number in range(25)}
    history.commit({**code, "mkdocs.yml": b"site_name: x\n", "docs/run.md": PAGE, "src/cli.py": CLI})
    questions = [PageQuestion("/run")]
    assert compare_pages(history.tree, "", questions, []).has_sources
    assert compare_pages(history.tree, "", questions, []).stale == []
    renamed = history.commit({"src/cli.py": CLI.replace(b"--dry-run", b"--preview")})
    [page] = compare_pages(history.tree, "", questions, []).stale
    assert [(source.repository, source.path) for source in page.sources] == [("", "src/cli.py")]
    assert page.sources[0].commits[0].id == renamed


def test_without_code_there_are_only_the_last_edits(pair: Pair) -> None:
    comparison = compare_pages(pair.docs.tree, "", [PageQuestion("/run"), PageQuestion("/gone")], [])
    assert (comparison.has_sources, comparison.stale, list(comparison.edits)) == (False, [], ["/run"])


def test_secret_files_and_submodules_are_not_read(pair: Pair) -> None:
    pair.write_code({"config/secrets.yaml": b"max_retries: 1\n", "src/.env": b"max_retries=1\n"})
    pair.write_code({"config/secrets.yaml": b"max_retries: 2\n", "src/.env": b"max_retries=2\n"})
    assert pair.compare().stale == []


@pytest.mark.deep
def test_500_pages_are_compared_in_one_walk_at_a_bounded_cost(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write_code({f"src/m{number}.py": f"option_number_{number} = 1\n".encode() for number in range(600)})
    pages = {f"docs/p{number}.md": f"# P\n\nSet `option_number_{number}`.\n".encode() for number in range(600)}
    pair.write_docs({"mkdocs.yml": b"site_name: x\n", **pages})
    for number in range(300):
        pair.write_code({f"src/m{number}.py": f"option_number_{number} = 2\n".encode()})
    addresses = [f"/p{number}" for number in range(600)]
    with limit_cpu(6.0):
        comparison = pair.compare(*addresses)
    assert len(comparison.edits) == 500
    assert [page.address for page in comparison.stale] == addresses[:300]
    assert comparison.is_complete


def test_commit_times_in_the_future_hide_nothing(pair: Pair) -> None:
    pair.code.commit({"src/cli.py": CLI.replace(b"--dry-run", b"--preview")}, at=2**32 - 1)
    [page] = pair.compare().stale
    assert page.sources[0].commits[0].at <= clock.now()


def test_endpoint_is_found_whatever_its_variables_are_called(pair: Pair) -> None:
    pair.write_docs({"docs/api.md": b"# API\n\nCall `DELETE /v2/items/{itemId}`.\n"})
    pair.write_code({"src/api.py": b'route("/v2/items/<item_id>", methods=["DELETE"])\n'})
    changed = pair.write_code({"src/api.py": b'route("/v3/items/<item_id>", methods=["DELETE"])\n'})
    assert pair.list_changes("/api") == [("/api", "src/api.py", ("/v2/items/{itemId}",), [changed])]


def test_other_spelling_counts_where_code_declares_the_name(pair: Pair) -> None:
    pair.write_docs({"docs/limits.md": b"# Limits\n\nSet `maxUploadSize`.\n"})
    pair.write_code({"src/limits.rs": b"pub max_upload_size: u32,\n", "src/names.rs": b'"maxUploadSize"\n'})
    pair.write_docs({"docs/limits.md": b"# Limits\n\nYou can set `maxUploadSize`.\n"})
    used = {"src/use.rs": b"check(max_upload_size);\n"}
    pair.write_code(used)
    pair.write_code({"src/use.rs": b"check(&max_upload_size);\n"})
    assert pair.list_changes("/limits") == []
    changed = pair.write_code({"src/limits.rs": b"pub max_upload_size: u64,\n"})
    assert pair.list_changes("/limits") == [("/limits", "src/limits.rs", ("maxUploadSize",), [changed])]
