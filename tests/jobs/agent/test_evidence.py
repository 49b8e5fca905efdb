"""Evidence: citations are looked up at the pinned commit, and linked by the form of each forge."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.agent.evidence import (
    MAX_STORED_CITATIONS,
    Evidence,
    EvidenceSource,
    build_permalink,
    find_quote,
    merge_evidence,
    verify_citations,
)
from copydesk.jobs.agent.tools.finish_tools import Citation, CitedSource
from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace

CODE = b"def run():\n    parser.add(\n        '--dry-run',\n    )\n\n# twice\nx = 1\n# twice\n"


def build_workspace(make: MakeWorkspace, code: bytes = CODE) -> Workspace:
    """Returns documentation with the context repository `code`, which has one file."""
    docs = make({"page.md": b"# Page\n", "own.py": b"FLAG = 2\n"})
    code_tree = make({"cli.py": code, "logo.png": b"\x89PNG\0\xff\xfe", "server.key": b"secret text"}).tree
    return Workspace(docs.tree, contexts=[ContextTree("code", code_tree)])


def verify(workspace: Workspace, lines: str, quote: str, *, path: str = "cli.py", repository: str = "code") -> Evidence:
    source = CitedSource(repository=repository, path=path, lines=lines, quote=quote)
    [evidence] = verify_citations(workspace, [Citation(path="page.md", line=1, statement="It is so.", source=source)])
    return evidence


@pytest.mark.parametrize(
    ("lines", "quote", "found"),
    [
        ("3", "'--dry-run'", "3"),
        ("2-4", "parser.add( '--dry-run', )", "2-4"),
        ("L2-L3", "parser.add(", "2-3"),
        ("1", "'--dry-run'", "3"),
        ("2", "'--dry-run'", "3"),
        ("4", "'--dry-run'", "3"),
        ("900", "def run", "1"),
        ("1", "parser.add(\n'--dry-run'", "2-3"),
        ("8", "# twice", "8"),
    ],
)
def test_quote_is_found_and_its_lines_corrected(workspace: MakeWorkspace, lines: str, quote: str, found: str) -> None:
    evidence = verify(build_workspace(workspace), lines, quote)
    assert (evidence.verified, evidence.problem, evidence.source.lines) == (True, None, found)


@pytest.mark.parametrize(
    ("lines", "quote", "path", "repository", "problem"),
    [
        ("1", "# twice", "cli.py", "code", "these lines do not contain the quote, which is at several other places"),
        ("3", "--dryrun", "cli.py", "code", "the file does not contain the quote"),
        ("3-2", "--nothing", "cli.py", "code", "the file does not contain the quote"),
        ("three", "--dry-run", "cli.py", "code", "the lines are not numbers"),
        ("1", "anything", "gone.py", "code", "there is no file gone.py"),
        ("1", "anything", "../docs/page.md", "code", "there is no file"),
        ("1", "secret text", "server.key", "code", "there is no file server.key"),
        ("1", "PNG anything", "logo.png", "code", "logo.png is not a text file"),
        ("1", "anything", "cli.py", "other", "There is no context repository other"),
    ],
)
def test_citation_that_does_not_hold_says_why(
    workspace: MakeWorkspace, lines: str, quote: str, path: str, repository: str, problem: str
) -> None:
    evidence = verify(build_workspace(workspace), lines, quote, path=path, repository=repository)
    assert not evidence.verified
    assert problem in (evidence.problem or "")


def test_documentation_repository_can_be_cited_as_it_was_before_the_edits(workspace: MakeWorkspace) -> None:
    docs = build_workspace(workspace)
    docs.write("own.py", b"FLAG = 3\n")
    assert verify(docs, "1", "FLAG = 2", path="own.py", repository="").verified
    assert not verify(docs, "1", "FLAG = 3", path="own.py", repository="").verified


def test_page_must_exist(workspace: MakeWorkspace) -> None:
    source = CitedSource(repository="code", path="cli.py", lines="3", quote="--dry-run")
    citation = Citation(path="gone.md", line=1, statement="It is so.", source=source)
    [evidence] = verify_citations(build_workspace(workspace), [citation])
    assert (evidence.verified, evidence.problem) == (False, "there is no page gone.md")


@pytest.mark.parametrize(
    ("forge", "address", "lines", "url"),
    [
        ("github", "https://github.com/a/b.git", "3", "https://github.com/a/b/blob/{c}/x%20y/z.py?plain=1#L3"),
        ("github", "https://github.com/a/b", "3-9", "https://github.com/a/b/blob/{c}/x%20y/z.py?plain=1#L3-L9"),
        ("gitlab", "https://gitlab.com/g/s/b", "3-9", "https://gitlab.com/g/s/b/-/blob/{c}/x%20y/z.py?plain=1#L3-9"),
        ("gitea", "https://git.test/a/b", "3-9", "https://git.test/a/b/src/commit/{c}/x%20y/z.py?display=source#L3-L9"),
        ("forgejo", "https://git.test/a/b", "3", "https://git.test/a/b/src/commit/{c}/x%20y/z.py?display=source#L3"),
        ("local", "https://git.test/a/b", "3", None),
        ("local", "/srv/code.git", "3", None),
    ],
)
def test_permalink_has_the_form_of_the_forge(forge: str, address: str, lines: str, url: str | None) -> None:
    commit = "c" * 40
    source = EvidenceSource(repository="code", commit=commit, path="x y/z.py", lines=lines)
    assert build_permalink(forge, address, source) == (url and url.format(c=commit))


def test_newest_citation_of_a_statement_counts_and_their_number_is_bounded() -> None:
    def cite(statement: str, lines: str) -> Evidence:
        source = EvidenceSource(repository="code", commit="c" * 40, path="a.py", lines=lines)
        return Evidence(path="page.md", line=1, statement=statement, source=source, verified=True)

    merged = merge_evidence(merge_evidence([], [cite("A", "1"), cite("B", "2")]), [cite("A", "3")])
    assert [(each["statement"], each["source"]["lines"]) for each in merged] == [("A", "3"), ("B", "2")]
    many = merge_evidence(merged, [cite(str(number), "1") for number in range(MAX_STORED_CITATIONS + 5)])
    assert len(many) == MAX_STORED_CITATIONS


@pytest.mark.deep
@given(
    st.lists(st.sampled_from(["alpha beta", "  gamma", "", "delta\t epsilon ", "alpha"]), min_size=1, max_size=12),
    st.data(),
)
def test_every_fragment_of_a_file_is_found(lines: list[str], data: st.DataObject) -> None:
    """A quote that spans any lines is found in these lines, whatever white space it has."""
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    quote = " ".join("\n".join(lines[first : last + 1]).split())
    if len(quote) < 4:
        return
    places = list(find_quote(lines, quote))
    assert places
    for start, end in places:
        assert quote in " ".join("\n".join(lines[start - 1 : end]).split())


@pytest.mark.deep
def test_cost_of_a_long_file_is_linear(workspace: MakeWorkspace) -> None:
    seconds = []
    for count in (20_000, 200_000):
        docs = build_workspace(workspace, b"aaaa aaaa\n" * count)
        started = time.process_time()
        verify(docs, "1", "aaaa " * 90 + "b")
        seconds.append(time.process_time() - started)
    assert seconds[1] < 40 * max(seconds[0], 0.01)
