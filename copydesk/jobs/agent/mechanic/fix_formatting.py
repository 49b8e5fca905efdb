"""Small repairs of form: trailing white space, heading levels."""

import re
from collections.abc import Callable

from copydesk.jobs.agent.mechanic.instructions import FixHeadings, Scope, TrimSpace
from copydesk.jobs.agent.mechanic.plan import Edits, Plan, counted, pages_in
from copydesk.jobs.pages.headings import Heading, headings
from copydesk.jobs.pages.lines import lines_of
from copydesk.jobs.pages.page_types import MARKDOWN, extension
from copydesk.jobs.pages.prose import fenced, prose
from copydesk.jobs.workspace.text_edits import Text, is_text
from copydesk.jobs.workspace.workspace import Workspace

DEEPEST = 6
TRAILING = re.compile(r"[ \t](?:\r?\n|$)")


def plan_trimming(workspace: Workspace, asked: TrimSpace) -> Plan:
    made = _plan(workspace, asked.scope, lambda path, body: _trimmed(path, body, asked.scope.code), "line")
    if made.files:
        made.notes.append("Two spaces at the end of a Markdown line are a line break and were kept.")
    return made


def plan_headings(workspace: Workspace, asked: FixHeadings) -> Plan:
    return _plan(workspace, asked.scope, _levelled, "heading")


def _plan(workspace: Workspace, scope: Scope, edits_of: Callable[[str, str], Edits], what: str) -> Plan:
    made = Plan()
    count = 0
    for path in pages_in(workspace, scope, made):
        data = workspace.read(path)
        edits = edits_of(path, Text.of(data).body) if is_text(data) else []
        if edits and made.is_full:
            made.note_rest()
            break
        if edits and made.edit(path, data, edits):
            count += len(edits)
    if count:
        made.notes.insert(0, f"Changed {counted(count, what)} in {counted(made.files, 'file')}.")
    elif not made.notes:
        made.notes.append("Nothing needed it.")
    return made


def _trimmed(path: str, body: str, code: bool) -> Edits:
    if not TRAILING.search(body):
        return []
    kept = frozenset() if code else fenced(path, body)
    edits: Edits = []
    for line in lines_of(body):
        text = line.text.rstrip(" \t")
        tail = line.text[len(text) :]
        line_break = tail == "  " and text and extension(path) in MARKDOWN
        if tail and not line_break and line.number not in kept:
            edits.append((line.start + len(text), line.end, ""))
    return edits


def _levelled(path: str, body: str) -> Edits:
    if extension(path) not in MARKDOWN:
        return []
    found = headings(body, prose(path, body))
    return [_at_level(body, heading, level) for heading, level in _levels(found) if heading.level != level]


def _levels(found: list[Heading]) -> list[tuple[Heading, int]]:
    """Each heading one below the one it belongs to; whatever follows a second title belongs below the first."""
    titles = 0
    above: list[tuple[int, int]] = []
    levels = []
    for heading in found:
        titles += heading.level == 1
        wanted = min(DEEPEST, heading.level + (titles > 1))
        while above and above[-1][0] >= wanted:
            above.pop()
        level = min(wanted, above[-1][1] + 1) if above else wanted
        above.append((wanted, level))
        levels.append((heading, level))
    return levels


def _at_level(body: str, heading: Heading, level: int) -> tuple[int, int, str]:
    line, underline = heading.line, heading.underline
    if underline is None:
        start = line.start + line.text.index("#")
        return start, start + heading.level, "#" * level
    if level == 2:
        return underline.start, underline.end, underline.text.replace("=", "-")
    indent = line.text[: line.indent]
    return line.start, underline.end, f"{indent}{'#' * level} {line.text.strip()}"
