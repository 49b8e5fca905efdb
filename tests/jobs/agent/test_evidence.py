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
    describe_missing_evidence,
    find_quote,
    merge_evidence,
    verify_citations,
)
from copydesk.jobs.agent.tools.finish_tools import Citation, CitedSource
from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.patches import FilePatch, create_patch
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace
from tests.support.cpu_budget import limit_cpu

CODE = b"def run():\n    parser.add(\n        '--dry-run',\n    )\n\n# twice ...\nx = 1\n# twice ...\n"


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
        ("1-2000", "parser.add(", "2"),
        ("1", "'--dry-run'", "3"),
        ("2", "'--dry-run'", "3"),
        ("4", "'--dry-run'", "3"),
        ("900", "def run():", "1"),
        ("1", "parser.add(\n'--dry-run'", "2-3"),
        ("8", "# twice  ...", "8"),
    ],
)
def test_quote_is_found_and_its_lines_corrected(workspace: MakeWorkspace, lines: str, quote: str, found: str) -> None:
    evidence = verify(build_workspace(workspace), lines, quote)
    assert (evidence.verified, evidence.problem, evidence.source.lines) == (True, None, found)


@pytest.mark.parametrize(
    ("lines", "quote", "path", "repository", "problem"),
    [
        (
            "1",
            "# twice ...",
            "cli.py",
            "code",
            "these lines do not contain the quote, which is at several other places",
        ),
        ("0-0", "no such line", "cli.py", "code", "the file does not contain the quote"),
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


@pytest.mark.parametrize("lines", ["0", "1", "1-3", "8-9", "900", "9999999"])
@pytest.mark.parametrize("quote", [" " * 8, "\n\n\n\n\n\n\n\n", "\u00a0\u2003" * 9, "x = 1 \n  \t "])
def test_blank_or_short_quote_proves_nothing(workspace: MakeWorkspace, lines: str, quote: str) -> None:
    docs = build_workspace(workspace, b"\n\n" + CODE)
    assert verify(docs, lines, quote).problem == "the quote is shorter than 8 characters"


def test_evidence_has_the_lines_of_the_quote_as_the_source_has_them(workspace: MakeWorkspace) -> None:
    docs = build_workspace(workspace)
    assert verify(docs, "1-4", "add( '--dry-run'").quote == "parser.add(\n        '--dry-run',"
    assert verify(docs, "3", "no such text").quote == "no such text"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("Nothing is changed.", "parser.add_argument('--dry-run')"),
        ("The flag is --dry-run.", "parser.add_argument('--dry-run')"),
        ("`dry-run` and `dryRun` are the same.", "dry_run: bool = False"),
        ("`--no-color` turns colors off.", "color: bool = True"),
        ("Run `tool serve --port 80`.", "serve.add_argument('--port', default=80)"),
        ("`COPYDESK_MODEL_TIMEOUT` and COPYDESK_RETRIES set it.", "model_timeout: float\nretries: int"),
        ("`server.timeout` is an `integer`.", "timeout: int"),
        ("`cli.py` has `Client.connect()`.", "def connect(self) -> None:"),
        ("GitHub answers on macOS, e.g. for JavaScript or Node.js.", "def connect(self) -> None:"),
        ("`GET /v2/jobs/{id}` returns it.", "@router.get('/jobs/{job_id}')"),
        ("It times out after 30 seconds, or 30 s, or 30s, or 0.5 minutes.", "TIMEOUT_MS = 30_000"),
        ("It is kept for 1 day.", "KEPT_SECONDS = 24 * 60 * 60"),
        ("At most 10 MB and 1,000 files.", "MAX_BYTES, MAX_FILES = 10 << 20, 1000"),
        ("At most 10 MB.", "MAX_BYTES = 10485760"),
        ("At most 50%, or 1 million.", "share = 0.5; most = 10**6"),
        ("It needs Python 3.12 and TLS 1.3.", "py312, TLSv1_3"),
        ("An unknown page is answered with 404.", "raise HTTPError(HTTPStatus.NOT_FOUND)"),
        ("It tries 3 times.", "# Three attempts are enough."),
        ("1. On 2026-01-02 at 12:30, since 2024, see step 2 and RFC 7231 for the 3rd of utf-8.", "def connect(self):"),
    ],
)
def test_names_and_numbers_count_in_all_their_spellings(workspace: MakeWorkspace, statement: str, code: str) -> None:
    assert judge(workspace, statement, code) is None


@pytest.mark.parametrize(
    ("statement", "code", "missing"),
    [
        ("The flag is `--force`.", "parser.add_argument('--dry-run')", "--force"),
        ("Use --force or --dry-run.", "parser.add_argument('--dry-run')", "--force"),
        ("Use `-q`.", "parser.add_argument('-v')", "-q"),
        ("Run `tool serve --workers 4`.", "serve.add_argument('--port', default=4)", "--workers"),
        ("Set retry_limit.", "timeout: int = 5", "retry_limit"),
        ("Set `retries`.", "timeout: int = 5", "retries"),
        ("Set maxRetries.", "timeout: int = 5", "maxRetries"),
        ("`proxy.timeout` is set.", "timeout: int = 5", "proxy.timeout"),
        ("TOOL_RETRIES is read.", "timeout: int = 5", "TOOL_RETRIES"),
        ("It times out after 30 seconds.", "timeout: int = 20", "30"),
        ("It times out after 30 seconds.", "timeout: int = 300", "30"),
        ("It needs Python 3.10.", "requires-python = '>=3.1'", "3.10"),
        ("It needs 1.2.3.", "version = '1.2.4'", "1.2.3"),
        ("A conflict is answered with 409.", "raise HTTPError(HTTPStatus.NOT_FOUND)", "409"),
        ("`timeout` is 30 s, `retries` 4.", "timeout: int = 30", "retries and 4"),
    ],
)
def test_name_or_number_that_the_cited_lines_do_not_have_is_named(
    workspace: MakeWorkspace, statement: str, code: str, missing: str
) -> None:
    assert judge(workspace, statement, code) == f"the quote exists, but does not name {missing}"


def judge(make: MakeWorkspace, statement: str, code: str) -> str | None:
    """Returns the problem of a citation of the whole code, which the section [server] and the class Client precede."""
    docs = build_workspace(make, f"[server]\nclass Client:\n\n{code}\n\nforce, workers, retries = 1\n".encode())
    last = 3 + len(code.splitlines())
    source = CitedSource(repository="code", path="cli.py", lines=f"4-{last}", quote=code.splitlines()[0])
    citation = Citation(path="page.md", line=1, statement=statement, source=source)
    [evidence] = verify_citations(docs, [citation])
    return evidence.problem


PAGE = "# Page\n\nRun the tool with `--try-run` to see what it would do.\nSee [the guide](guide.md) and its parts.\n"


def change(old: str, new: str, path: str = "page.md") -> list[FilePatch]:
    return [create_patch(path, old.encode(), new.encode())]


@pytest.mark.parametrize(
    "files",
    [
        change("", "Use `--fast` to skip all checks.\n"),
        change(PAGE, PAGE + "\nThe tool answers within a minute.\n"),
        change(PAGE, PAGE.replace("to see what it would do", "to skip slow checks of remote links")),
        change("| a | b |\n", "| a | b |\n| `--fast` | skips every slow check |\n"),
        change("# ツール\n", "# ツール\n\nこの値の既定は三十秒です。\n"),
    ],
)
def test_statement_without_a_citation_is_missing_evidence(files: list[FilePatch]) -> None:
    assert describe_missing_evidence(files, True, []) == "No evidence was given."
    assert describe_missing_evidence(files, False, []) is None


@pytest.mark.parametrize(
    "files",
    [
        [],
        change(PAGE, PAGE.replace("--try-run", "--dry-run")),
        change(PAGE, PAGE.replace("the tool", "the Acme Cloud Platform")),
        change(PAGE, PAGE.replace("see what it would do", "seee waht it wuold doo"))[::-1],
        change(PAGE.replace("see what it would", "seee whatt itt woulld"), PAGE),
        change(PAGE, PAGE.replace("[the guide](guide.md)", "[the new installation guide](start/install/guide.md)")),
        change(PAGE, PAGE.replace("# Page", "# How to see what would happen")),
        change(PAGE, f"---\ntitle: A page\ndescription: What the command for trying things prints.\n---\n\n{PAGE}"),
        change("guide\n", "guide\nstart/install\nconcepts/overview\nreference/commands\n", "index.rst"),
        change("", "* [Guide](guide.md)\n* [Installation on all systems](install.md)\n", "src/SUMMARY.md"),
        change("{}", '{"redirects": [{"source": "/old/address", "destination": "/new/page"}]}', "docs.json"),
        [*change(PAGE, "# Page\n"), *change("# Other\n", PAGE.replace("# Page", "# Other"), "other.md")],
        [FilePatch("new/page.md", "renamed", "page.md", 0, 0, b"")],
    ],
)  # fmt: skip
def test_change_that_states_nothing_new_needs_no_evidence(files: list[FilePatch]) -> None:
    assert describe_missing_evidence(files, True, []) is None


def test_any_citation_is_evidence(workspace: MakeWorkspace) -> None:
    files = change("", "Use `--fast` to skip all checks.\n")
    assert describe_missing_evidence(files, True, [verify(build_workspace(workspace), "1", "def run():")]) is None


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
        return Evidence(path="page.md", line=1, statement=statement, source=source, quote="", verified=True)

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


@pytest.mark.parametrize(
    "power", ["9**64**64**64**64**64", "9.9 ** 64 ** 64 ** 64 ** 64", "0.99999**64**64**64**64", "9 << 64 << 64 << 64"]
)
def test_powers_of_powers_in_the_cited_lines_cost_nothing(workspace: MakeWorkspace, power: str) -> None:
    with limit_cpu(2):
        assert judge(workspace, "It waits 5 seconds.", f"{power}\n" * 600) is not None


@pytest.mark.deep
def test_names_are_not_searched_for_in_all_of_a_large_file(workspace: MakeWorkspace) -> None:
    names = " ".join(f"`n{number}.py`" for number in range(40))
    with limit_cpu(2):
        problem = judge(workspace, names, "the first line\n" + "x = 1\n" * 300_000)
    assert problem is not None
    assert "does not name n0.py" in problem


@pytest.mark.deep
def test_cost_of_a_long_file_is_linear(workspace: MakeWorkspace) -> None:
    seconds = []
    for count in (20_000, 200_000):
        docs = build_workspace(workspace, b"aaaa aaaa\n" * count)
        started = time.process_time()
        verify(docs, "1", "aaaa " * 90 + "b")
        seconds.append(time.process_time() - started)
    assert seconds[1] < 40 * max(seconds[0], 0.01)
