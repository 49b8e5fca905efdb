"""Adds front-matter fields where they are missing."""

import posixpath
import re

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.instructions import AddField
from copydesk.jobs.agent.mechanic.plan import EditPlan, find_pages
from copydesk.jobs.pages.lines import split_lines
from copydesk.jobs.pages.page_types import INDEX_NAMES, MARKDOWN_EXTENSIONS, extension, is_site_page, stem
from copydesk.jobs.pages.parsing import front_matter
from copydesk.jobs.pages.parsing.headings import ATX_HEADING_PATTERN, find_headings, strip_markup
from copydesk.jobs.pages.parsing.prose import mask_non_prose
from copydesk.jobs.pages.parsing.yaml_reader import YAML_ERRORS, load_yaml
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

NOT_PROSE_PATTERN = re.compile(
    r"\s*(?:[-*+>|]\s|\d+[.)]\s|#|<|\||:::|!!!|\?\?\?|===|import\s|export\s|\{|!?\[[^\]]*\]:|!\[)"
)
SENTENCE_PATTERN = re.compile(r".+?[.!?](?=\s|$)")
MAX_DESCRIPTION_CHARS = 300
MAX_PARAGRAPH_CHARS = 10_000


def plan_fields(workspace: Workspace, instruction: AddField) -> EditPlan:
    plan = EditPlan()
    unclear: list[str] = []
    for path in find_pages(workspace, instruction.scope, plan):
        data = workspace.read(path)
        if (
            not (is_site_page(path) or instruction.scope.places)
            or extension(path) not in MARKDOWN_EXTENSIONS
            or not is_text(data)
        ):
            continue
        body = DecodedText.decode(data).body
        matter = front_matter.parse_front_matter(body)
        if not body.strip() or (matter and not matter.is_missing(instruction.name)):
            continue
        value = (
            format_value(instruction.name, instruction.value)
            if instruction.value is not None
            else _derive_value(instruction.name, path, body)
        )
        edit = front_matter.build_field_edit(body, instruction.name, value) if value else None
        if edit is None:
            unclear.append(path)
        elif plan.is_full:
            plan.note_limit_reached()
            break
        else:
            plan.add_edits(path, data, [edit])
    if plan.file_count:
        plan.notes.insert(0, f"Added {instruction.name} to {pluralize(plan.file_count, 'page')}.")
    elif not plan.notes and not unclear:
        plan.notes.append(f"No page is missing the field {instruction.name}.")
    if unclear:
        plan.notes.append(f"Not changed, because there is no value or no valid front matter: {', '.join(unclear)}.")
    return plan


def format_value(name: str, value: str) -> str:
    """Returns the value as given if it is YAML for a single value, else quoted."""
    try:
        loaded = load_yaml(f"{name}: {value}")
    except YAML_ERRORS:
        return front_matter.quote_yaml(value)
    is_single_value = isinstance(loaded, dict) and set(loaded) == {name} and not isinstance(loaded[name], dict | None)
    return value if is_single_value and "#" not in value else front_matter.quote_yaml(value)


def _derive_value(name: str, path: str, body: str) -> str | None:
    text = _derive_title(path, body) if name == "title" else _find_first_sentence(path, body)
    return front_matter.quote_yaml(text) if text else None


def _derive_title(path: str, body: str) -> str:
    """Returns the first top-level heading, or else the file name as words."""
    heading = next(
        (h for h in find_headings(body, mask_non_prose(path, body)) if h.level == 1 and strip_markup(h.text)), None
    )
    if heading:
        return strip_markup(heading.text)
    name = stem(path)
    if name in INDEX_NAMES and posixpath.dirname(path):
        name = posixpath.basename(posixpath.dirname(path))
    title = re.sub(r"[-_]+", " ", name).strip()
    return title[:1].upper() + title[1:]


def _find_first_sentence(path: str, body: str) -> str:
    """Returns the first sentence of the first paragraph of plain text."""
    prose_text = mask_non_prose(path, body)
    paragraph: list[str] = []
    for line, visible in zip(split_lines(body), split_lines(prose_text), strict=True):
        if paragraph and (
            visible.is_blank or ATX_HEADING_PATTERN.match(visible.text) or set(visible.text.strip()) <= {"=", "-"}
        ):
            if not set(visible.text.strip()) & {"=", "-"} or visible.is_blank:
                break
            paragraph = []
        elif (
            not visible.is_blank
            and (paragraph or not NOT_PROSE_PATTERN.match(visible.text))
            and not ATX_HEADING_PATTERN.match(visible.text)
        ):
            paragraph.append(line.text.strip())
    text = strip_markup(" ".join(paragraph)[:MAX_PARAGRAPH_CHARS])
    sentence = SENTENCE_PATTERN.match(text)
    text = sentence.group() if sentence else text
    return text if len(text) <= MAX_DESCRIPTION_CHARS else text[:MAX_DESCRIPTION_CHARS].rsplit(" ", 1)[0] + " …"
