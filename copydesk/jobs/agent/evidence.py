"""Evidence: the places in a repository that a model cites for its statements, and whether they say so."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote as quote_url

from pydantic import BaseModel, ConfigDict

from copydesk.jobs.agent.tools.finish_tools import Citation, CitedSource
from copydesk.jobs.agent.tools.tool import ToolRefused, select_files
from copydesk.jobs.workspace.patches import FilePatch
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Workspace

MAX_STORED_CITATIONS = 200
LINES_PATTERN = re.compile(r"L?(\d{1,7})(?:\s*[-–]\s*L?(\d{1,7}))?")
WHITE_SPACE_PATTERN = re.compile(r"\s+")


class EvidenceSource(BaseModel):
    model_config = ConfigDict(frozen=True)

    repository: str
    """The name of the context repository; empty for the documentation repository."""
    commit: str
    path: str
    lines: str
    url: str | None = None
    """The permalink of the lines; null for plain git."""


class Evidence(BaseModel):
    """A citation as it is stored with the job. `problem` says why it could not be verified; null if it was."""

    model_config = ConfigDict(frozen=True)

    path: str
    line: int
    statement: str
    source: EvidenceSource
    verified: bool
    problem: str | None = None


def verify_citations(workspace: Workspace, citations: Sequence[Citation]) -> list[Evidence]:
    """Returns each citation with whether the cited lines exist at the pinned commit and contain the quote."""
    return [_verify(workspace, citation) for citation in citations]


def _verify(workspace: Workspace, citation: Citation) -> Evidence:
    source = citation.source
    context = workspace.contexts.get(source.repository)
    commit = context.tree.commit if context else workspace.tree.commit
    lines, problem = _locate_quote(workspace, source)
    if not workspace.exists(citation.path):
        problem = f"there is no page {citation.path}"
    return Evidence(
        path=citation.path,
        line=citation.line,
        statement=citation.statement,
        source=EvidenceSource(repository=source.repository, commit=commit, path=source.path, lines=lines),
        verified=problem is None,
        problem=problem,
    )


def _locate_quote(workspace: Workspace, source: CitedSource) -> tuple[str, str | None]:
    """Returns the lines with the quote and None, or the lines as cited and why they do not prove the statement.

    Corrects the lines if the quote is at another place of the file, and only there.
    """
    match = LINES_PATTERN.fullmatch(source.lines.strip())
    if match is None:
        return source.lines, "the lines are not numbers such as 12 or 12-15"
    first = int(match[1])
    last = int(match[2] or match[1])
    cited = _format_lines(first, last)
    try:
        data = _read_source(workspace, source)
    except ToolRefused as refusal:
        return cited, str(refusal)
    file_lines = data.split("\n")
    wanted = _normalize(source.quote)
    if 1 <= first <= last <= len(file_lines) and wanted in _normalize("\n".join(file_lines[first - 1 : last])):
        return cited, None
    places = list(find_quote(file_lines, wanted))
    if len(places) == 1:
        return _format_lines(*places[0]), None
    if places:
        return cited, "these lines do not contain the quote, which is at several other places of the file"
    return cited, "the file does not contain the quote"


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


def describe_missing_evidence(
    files: Sequence[FilePatch], has_contexts: bool, evidence: Sequence[Evidence]
) -> str | None:
    """Returns what to say of a change that adds statements and cites nothing; None if there is nothing to say."""
    return None


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
