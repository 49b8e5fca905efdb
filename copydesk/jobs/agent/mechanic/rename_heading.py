"""Changes the text of one heading, and the links to its anchor."""

from collections.abc import Iterator
from typing import NamedTuple

from copydesk.jobs.agent.mechanic.anchor_links import find_name_edits, update_anchor_links
from copydesk.jobs.agent.mechanic.instructions import RenameHeading
from copydesk.jobs.agent.mechanic.plan import EditPlan, Edits, find_pages, join_limited, select_lines
from copydesk.jobs.pages.directives import find_underline_edits
from copydesk.jobs.pages.lines import line_at, split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.headings import ATX_HEADING_PATTERN, find_raw_headings, strip_markup
from copydesk.jobs.pages.parsing.prose import mask_non_prose, mask_rst_code
from copydesk.jobs.pages.parsing.rst_references import find_rst_titles
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace


class PageHeading(NamedTuple):
    path: str
    line: int
    text: str
    start: int
    """Where the text begins in the body."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def plan_heading(workspace: Workspace, instruction: RenameHeading) -> EditPlan:
    plan = EditPlan()
    headings: list[PageHeading] = []
    for path in find_pages(workspace, instruction.scope, plan):
        data = workspace.read(path)
        if is_text(data):
            body = DecodedText.decode(data).body
            spans = [(each.start, each.start + len(each.text), "") for each in _find_headings(path, body)]
            selected = {start for start, _, _ in select_lines(body, spans, instruction.scope)}
            headings += [each for each in _find_headings(path, body) if each.start in selected]
    if plan.notes:
        return plan
    heading = _choose_heading(headings, instruction, plan)
    if heading is not None:
        _plan_edits(workspace, heading, instruction.new, plan)
    return plan


def _find_headings(path: str, body: str) -> Iterator[PageHeading]:
    """Yields the headings of a Markdown page or of one in reStructuredText."""
    if extension(path) in MARKDOWN_EXTENSIONS:
        for _, text, _, line, _ in find_raw_headings(body, mask_non_prose(path, body)):
            marks = ATX_HEADING_PATTERN.match(line.text)
            start = line.text.find(text, marks.end() if marks else 0)
            if text:
                yield PageHeading(path, line.number, text, line.start + start)
    elif extension(path) == ".rst":
        lines = split_lines(body)
        for start, end, _ in find_rst_titles(mask_rst_code(body)):
            text = body[start:end].strip()
            start = body.index(text, start)
            yield PageHeading(path, line_at(lines, start).number, text, start)


def _choose_heading(headings: list[PageHeading], instruction: RenameHeading, plan: EditPlan) -> PageHeading | None:
    """Returns the only heading with the old text, or adds a note that says why there is none."""
    old = strip_markup(instruction.old)
    similar = [each for each in headings if strip_markup(each.text).casefold() == old.casefold()]
    matches = [each for each in similar if strip_markup(each.text) == old] or similar
    if len(matches) == 1:
        return matches[0]
    pages = list(dict.fromkeys(each.path for each in matches))
    if not matches:
        place = str(instruction.scope) if instruction.scope.places else "on any page"
        plan.notes.append(f"There is no heading “{instruction.old}” {place}. Nothing was changed.")
    elif len(pages) > 1:
        plan.notes.append(
            f"{len(pages)} pages have the heading “{instruction.old}”: {join_limited(pages)}. Nothing was changed. "
            f"Name the page: “… in {pages[0]}”."
        )
    else:
        places = join_limited([each.place for each in matches])
        plan.notes.append(f"Several headings are “{instruction.old}”: {places}. Nothing was changed.")
    return None


def _plan_edits(workspace: Workspace, heading: PageHeading, new: str, plan: EditPlan) -> None:
    data = workspace.read(heading.path)
    body = DecodedText.decode(data).body
    edits: Edits = [(heading.start, heading.start + len(heading.text), new)]
    if extension(heading.path) == ".rst":
        edits += [*find_underline_edits(body, edits), *find_name_edits(body, edits)]
    edits_by_path = {heading.path: (data, edits)}
    plan.notes.append(f"Changed the heading at {heading.place}.")
    update_anchor_links(workspace, edits_by_path, plan)
    for path, (original, page_edits) in edits_by_path.items():
        plan.add_edits(path, original, page_edits)
