"""Changes one value in a Markdown table, which the prompt names by its row and its column."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from copydesk.jobs.agent.mechanic.instructions import SetTableValue
from copydesk.jobs.agent.mechanic.plan import EditPlan, find_pages, join_limited
from copydesk.jobs.pages.lines import Span, TextLine, split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.headings import strip_markup
from copydesk.jobs.pages.parsing.prose import find_code_lines
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

DELIMITER_ROW_PATTERN = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
CELL_PATTERN = re.compile(r"(?:\\.|`[^`]*`|[^|\\`]|`)+")
"""The content of a cell. A pipe in code or after a backslash does not end it."""
MAX_ROW_CHARS = 5000


class TableCell(NamedTuple):
    path: str
    line: int
    text: str
    span: Span
    """The cell without the spaces around it."""
    padding: int
    """How many spaces follow it."""


def plan_table_value(workspace: Workspace, instruction: SetTableValue) -> EditPlan:
    plan = EditPlan()
    cells: list[TableCell] = []
    for path in find_pages(workspace, instruction.scope, plan):
        data = workspace.read(path)
        if extension(path) in MARKDOWN_EXTENSIONS and is_text(data) and b"|" in data:
            cells += _find_cells(path, DecodedText.decode(data).body, instruction, plan)
    if len(cells) > 1:
        places = join_limited([f"{cell.path}:{cell.line}" for cell in cells])
        plan.notes.append(
            f"Several tables have the row “{instruction.row}”: {places}. Nothing was changed. Name one page."
        )
    elif not cells and not plan.notes:
        plan.notes.append(f"No table {instruction.scope} has the row “{instruction.row}”. Nothing was changed.")
    elif cells:
        _plan_cell(workspace, cells[0], instruction, plan)
    return plan


def _plan_cell(workspace: Workspace, cell: TableCell, instruction: SetTableValue, plan: EditPlan) -> None:
    is_code = len(cell.text) > 2 and cell.text[0] == cell.text[-1] == "`"
    new = f"`{instruction.value}`" if is_code and "`" not in instruction.value else instruction.value
    new = re.sub(r"(?<!\\)\|", r"\\|", new)
    if new == cell.text:
        plan.notes.append(f"{cell.path}:{cell.line} already has the value {cell.text}.")
        return
    # Spaces after the cell keep the columns of the source aligned.
    start, end = cell.span
    spare = max(0, cell.padding - 1)
    growth = len(new) - len(cell.text)
    edit = (start, end + min(spare, max(0, growth)), new + " " * max(0, -growth if cell.padding > 1 else 0))
    if plan.add_edits(cell.path, workspace.read(cell.path), [edit]):
        plan.notes.append(f"Changed {cell.text or 'an empty cell'} to {new} at {cell.path}:{cell.line}.")


def _find_cells(path: str, body: str, instruction: SetTableValue, plan: EditPlan) -> Iterator[TableCell]:
    code_lines = find_code_lines(path, body)
    headings: list[str] = []
    previous: TextLine | None = None
    for line in split_lines(body):
        is_row = "|" in line.text and len(line.text) <= MAX_ROW_CHARS and line.number not in code_lines
        if is_row and previous is not None and DELIMITER_ROW_PATTERN.fullmatch(line.text):
            headings = [_strip(previous.text[start:end]) for start, end in _split_cells(previous.text)]
        elif is_row and headings:
            yield from _match_row(path, line, headings, instruction, plan)
        elif not is_row:
            headings = []
        previous = line if is_row else None


def _match_row(
    path: str, line: TextLine, headings: list[str], instruction: SetTableValue, plan: EditPlan
) -> Iterator[TableCell]:
    spans = _split_cells(line.text)
    if len(spans) < 2 or _strip(line.text[slice(*spans[0])]).casefold() != instruction.row.strip("` ").casefold():
        return
    index = 1
    if instruction.column is not None:
        wanted = instruction.column.strip("` ").casefold()
        index = next((n for n, heading in enumerate(headings) if heading.casefold() == wanted), len(spans))
    elif len(spans) > 2:
        index = len(spans)
    if index >= len(spans):
        columns = ", ".join(headings[1:])
        plan.notes.append(f"{path}:{line.number} has the columns {columns}. Nothing was changed. Name one of them.")
        return
    start, end = spans[index]
    text = line.text[start:end]
    content = text.strip()
    first = start + len(text) - len(text.lstrip()) if content else start + min(1, len(text))
    last = first + len(content)
    yield TableCell(path, line.number, content, (line.start + first, line.start + last), end - last)


def _split_cells(row: str) -> list[Span]:
    spans = [match.span() for match in CELL_PATTERN.finditer(row)]
    if spans and not row[slice(*spans[0])].strip():
        spans = spans[1:]  # spaces before the first pipe
    if spans and row.rstrip().endswith("|") and not row[slice(*spans[-1])].strip() and spans[-1][0] > row.rindex("|"):
        spans = spans[:-1]
    return spans


def _strip(cell: str) -> str:
    return strip_markup(cell.strip()).strip("`* ")
