"""Fixes formatting: trailing whitespace and heading levels."""

import re
from collections.abc import Callable

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.instructions import FixHeadings, InstructionScope, TrimSpace
from copydesk.jobs.agent.mechanic.plan import EditPlan, Edits, find_pages, select_lines
from copydesk.jobs.pages.lines import split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.headings import Heading, find_headings
from copydesk.jobs.pages.parsing.prose import find_code_lines, mask_non_prose
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

MAX_HEADING_LEVEL = 6
TRAILING_SPACE_PATTERN = re.compile(r"[ \t](?:\r?\n|$)")


def plan_trimming(workspace: Workspace, instruction: TrimSpace) -> EditPlan:
    plan = _plan_edits(
        workspace,
        instruction.scope,
        lambda path, body: _find_trailing_space_edits(path, body, instruction.scope.code),
        "line",
    )
    if plan.file_count:
        plan.notes.append("Kept two spaces at the end of Markdown lines, because they are a line break.")
    return plan


def plan_headings(workspace: Workspace, instruction: FixHeadings) -> EditPlan:
    return _plan_edits(workspace, instruction.scope, _find_heading_edits, "heading")


def _plan_edits(
    workspace: Workspace, scope: InstructionScope, find_edits: Callable[[str, str], Edits], noun: str
) -> EditPlan:
    plan = EditPlan()
    count = 0
    for path in find_pages(workspace, scope, plan):
        data = workspace.read(path)
        body = DecodedText.decode(data).body if is_text(data) else ""
        edits = select_lines(body, find_edits(path, body), scope) if body else []
        if edits and plan.is_full:
            plan.note_limit_reached()
            break
        if edits and plan.add_edits(path, data, edits):
            count += len(edits)
    if count:
        plan.notes.insert(0, f"Changed {pluralize(count, noun)} in {pluralize(plan.file_count, 'file')}.")
    elif not plan.notes:
        plan.notes.append("There was nothing to change.")
    return plan


def _find_trailing_space_edits(path: str, body: str, include_code: bool) -> Edits:
    if not TRAILING_SPACE_PATTERN.search(body):
        return []
    protected_lines = frozenset() if include_code else find_code_lines(path, body)
    edits: Edits = []
    for line in split_lines(body):
        text = line.text.rstrip(" \t")
        tail = line.text[len(text) :]
        line_break = tail == "  " and text and extension(path) in MARKDOWN_EXTENSIONS
        if tail and not line_break and line.number not in protected_lines:
            edits.append((line.start + len(text), line.end, ""))
    return edits


def _find_heading_edits(path: str, body: str) -> Edits:
    if extension(path) not in MARKDOWN_EXTENSIONS:
        return []
    page_headings = find_headings(body, mask_non_prose(path, body))
    return [
        _set_level(body, heading, level) for heading, level in _assign_levels(page_headings) if heading.level != level
    ]


def _assign_levels(page_headings: list[Heading]) -> list[tuple[Heading, int]]:
    """Returns each heading with its new level: at most one below its parent.

    From a second title on, headings move one level down, below the first title.
    """
    titles = 0
    ancestors: list[tuple[int, int]] = []
    levels = []
    for heading in page_headings:
        titles += heading.level == 1
        shifted_level = min(MAX_HEADING_LEVEL, heading.level + (titles > 1))
        while ancestors and ancestors[-1][0] >= shifted_level:
            ancestors.pop()
        level = min(shifted_level, ancestors[-1][1] + 1) if ancestors else shifted_level
        ancestors.append((shifted_level, level))
        levels.append((heading, level))
    return levels


def _set_level(body: str, heading: Heading, level: int) -> tuple[int, int, str]:
    line = heading.line
    underline = heading.underline
    if underline is None:
        start = line.start + line.text.index("#")
        return start, start + heading.level, "#" * level
    if level == 2:
        return underline.start, underline.end, underline.text.replace("=", "-")
    indent = line.text[: line.indent]
    return line.start, underline.end, f"{indent}{'#' * level} {line.text.strip()}"
