"""Evidence: the places in a repository that a model cites for its statements, and whether they say so."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from difflib import get_close_matches
from typing import Any, NamedTuple
from urllib.parse import quote as quote_url

from pydantic import BaseModel, ConfigDict

from copydesk.core.text.truncation import truncate
from copydesk.jobs.agent.claims import CitedText, find_unnamed
from copydesk.jobs.agent.tools.finish_tools import Citation, CitedSource
from copydesk.jobs.agent.tools.tool import ToolRefused, select_files
from copydesk.jobs.pages.page_types import MARKDOWN_NAV_FILES, is_page
from copydesk.jobs.workspace.patches import FilePatch
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Workspace

MAX_STORED_CITATIONS = 200
MIN_QUOTE_CHARS = 8
"""Shorter quotes, without white space around them, are in too many places to prove anything."""
MAX_QUOTE_CHARS = 500
MAX_CITED_LINES = 50
"""Of more lines, only those with the quote count."""
MAX_CITED_CHARS = 20_000
MAX_SURROUNDING_CHARS = 200_000
"""How much of a file is searched for what qualifies a name, such as the section of a setting."""
MIN_STATEMENT_WORDS = 4
"""A statement brings at least this many new words in neighboring lines. Fewer are a corrected word, a term that
replaces another, or a reference."""
LINES_PATTERN = re.compile(r"L?(\d{1,7})(?:\s*[-–]\s*L?(\d{1,7}))?")
WHITE_SPACE_PATTERN = re.compile(r"\s+")
NO_WORDS_PATTERN = re.compile(r"!?\[[^][\n]*\](?:\([^()\n]*\)|\[[^][\n]*\])|\bhttps?://[^\s<>()]+|</?[A-Za-z][^<>\n]*>")
WORD_PATTERN = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]{2,}|[\u3040-\u30ff\u3400-\u9fff]")
LABEL_LINE_PATTERN = re.compile(
    r"#{1,6} |[-*+\s]*[\w./-]+\s*$"
    r"|(?:aliases|authors?|date|description|icon|keywords|layout|nav_title|order|redirect_from|sidebar\w*|slug|tags|title"
    r"|weight):"
)
"""Headings, entries of a table of contents, and fields about the page."""
MAX_COMPARED_WORDS = 2000
CORRECTED_WORD_SIMILARITY = 0.75


class EvidenceSource(BaseModel):
    model_config = ConfigDict(frozen=True)

    repository: str
    """The name of the context repository; empty for the documentation repository."""
    commit: str
    path: str
    lines: str
    url: str | None = None
    """The permalink of the lines; null for plain git."""

    @property
    def place(self) -> str:
        """Returns where the source says so, such as `code: src/cli.py, line 3`."""
        path = f"{self.repository}: {self.path}" if self.repository else self.path
        return f"{path}, {'lines' if '-' in self.lines else 'line'} {self.lines}"


class Evidence(BaseModel):
    """A citation as it is stored with the job. `problem` says why it could not be verified; null if it was."""

    model_config = ConfigDict(frozen=True)

    path: str
    line: int
    statement: str
    source: EvidenceSource
    quote: str
    """The quoted lines as the source has them. What the model quoted, if the source does not have it."""
    verified: bool
    problem: str | None = None


class _FoundQuote(NamedTuple):
    """Where a quote was looked for. `problem` says why the place does not prove the statement."""

    lines: str
    quote: str
    problem: str | None


def verify_citations(workspace: Workspace, citations: Sequence[Citation]) -> list[Evidence]:
    """Returns each citation with whether it holds.

    It holds if the cited lines exist at the pinned commit, contain the quote, and name what the statement names.
    """
    return [_verify(workspace, citation) for citation in citations]


def _verify(workspace: Workspace, citation: Citation) -> Evidence:
    source = citation.source
    context = workspace.contexts.get(source.repository)
    commit = context.tree.commit if context else workspace.tree.commit
    found = _look_up(workspace, source, citation.statement)
    problem = found.problem if workspace.exists(citation.path) else f"there is no page {citation.path}"
    return Evidence(
        path=citation.path,
        line=citation.line,
        statement=citation.statement,
        source=EvidenceSource(repository=source.repository, commit=commit, path=source.path, lines=found.lines),
        quote=truncate(found.quote.strip(), MAX_QUOTE_CHARS),
        verified=problem is None,
        problem=problem,
    )


def _look_up(workspace: Workspace, source: CitedSource, statement: str) -> _FoundQuote:
    """Returns the lines with the quote, or the lines as cited and why they do not prove the statement.

    Corrects the lines if the quote is at another place of the file, and only there.
    """
    wanted = _normalize(source.quote)
    match = LINES_PATTERN.fullmatch(source.lines.strip())
    if match is None:
        return _FoundQuote(source.lines, wanted, "the lines are not numbers such as 12 or 12-15")
    first, last = int(match[1]), int(match[2] or match[1])
    cited = _format_lines(first, last)
    if len(wanted) < MIN_QUOTE_CHARS:
        return _FoundQuote(cited, wanted, f"the quote is shorter than {MIN_QUOTE_CHARS} characters")
    try:
        text = _read_source(workspace, source)
    except ToolRefused as refusal:
        return _FoundQuote(cited, wanted, str(refusal))
    file_lines = text.split("\n")
    is_short = first <= last < first + MAX_CITED_LINES
    cited_lines = file_lines[first - 1 : last] if is_short and first >= 1 and last <= len(file_lines) else []
    if within := next(iter(find_quote(cited_lines, wanted)), None):
        quoted = _join_lines(cited_lines, *within)
    else:
        places = list(find_quote(file_lines, wanted))
        if len(places) != 1:
            several = "these lines do not contain the quote, which is at several other places of the file"
            return _FoundQuote(cited, wanted, several if places else "the file does not contain the quote")
        first, last = places[0]
        cited_lines = [quoted := _join_lines(file_lines, first, last)]
    place = f"{source.repository} {source.path}"
    proof = "\n".join((truncate("\n".join(cited_lines), MAX_CITED_CHARS), wanted))
    unnamed = find_unnamed(statement, CitedText(proof, f"{place}\n{text[:MAX_SURROUNDING_CHARS]}", place))
    problem = f"the quote exists, but does not name {' and '.join(unnamed)}" if unnamed else None
    return _FoundQuote(_format_lines(first, last), quoted, problem)


def _read_source(workspace: Workspace, source: CitedSource) -> str:
    """Returns the text of the cited file before the job's edits. Raises ToolRefused if it cannot be read."""
    if source.repository:
        try:
            data: bytes | None = select_files(workspace, source.repository).read(source.path)
        except (KeyError, FileTooLarge):
            data = None
    else:
        data = workspace.read_original(source.path) if workspace.is_readable(source.path) else None
    if data is None:
        raise ToolRefused(f"there is no file {source.path}")
    try:
        return DecodedText.decode(data).normalized_body
    except NotEditable:
        raise ToolRefused(f"{source.path} is not a text file") from None


def find_quote(lines: Sequence[str], wanted: str) -> Iterable[tuple[int, int]]:
    """Yields the first and last line of each occurrence of a quote, at most two."""
    starts: list[int] = []  # where each line begins in the normalized text
    parts = []
    position = 0
    for line in lines:
        starts.append(position)
        part = _normalize(line)
        parts.append(part)
        position += len(part) + 1 if part else 0
    text = " ".join(part for part in parts if part)
    found = text.find(wanted)
    for _ in range(2):
        if found < 0:
            return
        first = max(number for number, start in enumerate(starts) if start <= found and parts[number])
        last = max(number for number, start in enumerate(starts) if start < found + len(wanted) and parts[number])
        yield first + 1, last + 1
        found = text.find(wanted, found + 1)


def _join_lines(lines: Sequence[str], first: int, last: int) -> str:
    return "\n".join(lines[first - 1 : last])


def _normalize(text: str) -> str:
    return WHITE_SPACE_PATTERN.sub(" ", text).strip()


def _format_lines(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def describe_unverified(evidence: Iterable[Evidence]) -> str | None:
    """Returns what the model should correct in its citations, or None if all are verified."""
    problems = [
        f"- {each.statement} ({each.source.path}, lines {each.source.lines}): {each.problem}."
        for each in evidence
        if not each.verified
    ]
    if not problems:
        return None
    return "\n".join(
        [
            "Not finished yet: Copydesk looked up the evidence and could not confirm this:",
            *problems,
            "Read the places again. Correct the citation, or the page if it is wrong, then call finish again. What "
            "stays unconfirmed is shown to the reviewer as such.",
        ]
    )


NO_EVIDENCE = "No evidence was given."
ASK_FOR_EVIDENCE = (
    "Not finished yet: you added statements to pages, and no evidence. Cite for each where a repository says so, then "
    "call finish again. What no repository says does not belong on the page."
)


def describe_missing_evidence(
    files: Sequence[FilePatch], has_contexts: bool, evidence: Sequence[Evidence]
) -> str | None:
    """Returns that there is no evidence, if a change adds statements to pages and the model could have cited sources.

    `has_contexts` says whether it could: the mechanic cites nothing. A moved page, a redirect, navigation, a replaced
    term, a corrected link or word adds no statement.
    """
    if not has_contexts or evidence:
        return None
    blocks = [block for patch in files if _has_statements(patch) for block in _list_blocks(patch)]
    removed = {word for block in blocks for line in block.removed for word in _list_words(line)}
    return NO_EVIDENCE if any(_adds_statement(block, removed) for block in blocks) else None


class _Block(NamedTuple):
    """Neighboring lines of a patch that a change removes and adds."""

    removed: list[str]
    added: list[str]


def _has_statements(patch: FilePatch) -> bool:
    return is_page(patch.path) and patch.path.rpartition("/")[2] not in MARKDOWN_NAV_FILES


def _list_blocks(patch: FilePatch) -> Iterator[_Block]:
    _, _, hunks = patch.data.decode(errors="replace").partition("\n@@")
    block = _Block([], [])
    for line in f"@@{hunks}".split("\n"):
        if line.startswith(("+", "-")):
            (block.added if line[0] == "+" else block.removed).append(line[1:])
        elif not line.startswith("\\"):  # the note that the last line has no end
            yield block
            block = _Block([], [])
    yield block


def _adds_statement(block: _Block, removed: Set[str]) -> bool:
    """Returns whether a block has enough words that the change removes nowhere, and that are no corrected words."""
    text = " ".join(line for line in block.added if not LABEL_LINE_PATTERN.match(line))
    new = set(_list_words(text)) - removed
    if _count_words(new) < MIN_STATEMENT_WORDS:
        return False
    gone = {word for line in block.removed for word in _list_words(line)} - set(_list_words(text))
    is_small = len(new) * len(gone) <= MAX_COMPARED_WORDS
    corrected = {word for word in new if is_small and get_close_matches(word, gone, 1, CORRECTED_WORD_SIMILARITY)}
    return _count_words(new - corrected) >= MIN_STATEMENT_WORDS


def _count_words(words: Set[str]) -> float:
    """Returns how many words these are. A sign of a script without spaces counts as half a word."""
    return sum(0.5 if len(word) == 1 else 1 for word in words)


def _list_words(text: str) -> list[str]:
    """Returns the words of a text without references and tags, and single signs of scripts without spaces."""
    words: list[str] = WORD_PATTERN.findall(NO_WORDS_PATTERN.sub(" ", text).casefold())
    return words


def merge_evidence(earlier: Sequence[Any], new: Iterable[Evidence]) -> list[dict[str, Any]]:
    """Returns the evidence of all runs of a job, as stored. The newest citation of the same statement counts."""
    merged = {(each["path"], each["statement"]): each for each in earlier}
    merged |= {(each.path, each.statement): each.model_dump() for each in new}
    return list(merged.values())[-MAX_STORED_CITATIONS:]


def build_permalink(forge: str, repository: str, source: EvidenceSource) -> str | None:
    """Returns the URL of the cited lines on a forge; None for plain git."""
    base = repository.removesuffix(".git")
    path = quote_url(source.path)
    first, _, last = source.lines.partition("-")
    if not repository.startswith(("https://", "http://")):
        return None
    if forge == "github":
        return f"{base}/blob/{source.commit}/{path}?plain=1#L{first}" + (f"-L{last}" if last else "")
    if forge == "gitlab":
        return f"{base}/-/blob/{source.commit}/{path}?plain=1#L{first}" + (f"-{last}" if last else "")
    if forge in ("gitea", "forgejo"):
        return f"{base}/src/commit/{source.commit}/{path}?display=source#L{first}" + (f"-L{last}" if last else "")
    return None
