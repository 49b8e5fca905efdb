"""Adds front-matter fields where they are missing."""

import posixpath
import re

from copydesk.jobs.agent.mechanic.instructions import AddField
from copydesk.jobs.agent.mechanic.plan import Plan, counted, pages_in
from copydesk.jobs.pages import front_matter as frontmatter
from copydesk.jobs.pages.headings import ATX, headings, plain_text
from copydesk.jobs.pages.lines import lines_of
from copydesk.jobs.pages.page_types import INDEXES, MARKDOWN, extension, is_site_page, stem
from copydesk.jobs.pages.prose import prose
from copydesk.jobs.workspace.text_edits import Text, is_text
from copydesk.jobs.workspace.workspace import Workspace

NO_SENTENCE = re.compile(r"\s*(?:[-*+>|]\s|\d+[.)]\s|#|<|\||:::|!!!|\?\?\?|===|import\s|export\s|\{|!?\[[^\]]*\]:|!\[)")
SENTENCE = re.compile(r".+?[.!?](?=\s|$)")
LONGEST = 300
LONGEST_PARAGRAPH = 10_000


def plan(workspace: Workspace, asked: AddField) -> Plan:
    made = Plan()
    unclear: list[str] = []
    for path in pages_in(workspace, asked.scope, made):
        data = workspace.read(path)
        if not (is_site_page(path) or asked.scope.places) or extension(path) not in MARKDOWN or not is_text(data):
            continue
        body = Text.of(data).body
        matter = frontmatter.find(body)
        if not body.strip() or (matter and not matter.lacks(asked.name)):
            continue
        value = given(asked.name, asked.value) if asked.value is not None else _from_page(asked.name, path, body)
        edit = frontmatter.addition(body, asked.name, value) if value else None
        if edit is None:
            unclear.append(path)
        elif made.is_full:
            made.note_rest()
            break
        else:
            made.edit(path, data, [edit])
    if made.files:
        made.notes.insert(0, f"Added {asked.name} to {counted(made.files, 'page')}.")
    elif not made.notes and not unclear:
        made.notes.append(f"No page lacks the field {asked.name}.")
    if unclear:
        made.notes.append(f"Left as they are, no value or no valid front matter being there: {', '.join(unclear)}.")
    return made


def given(name: str, value: str) -> str:
    """As it was given where that is YAML for one value, else quoted."""
    try:
        loaded = frontmatter.load(f"{name}: {value}")
    except frontmatter.UNREADABLE:
        return frontmatter.quoted(value)
    plain = isinstance(loaded, dict) and set(loaded) == {name} and not isinstance(loaded[name], dict | None)
    return value if plain and "#" not in value else frontmatter.quoted(value)


def _from_page(name: str, path: str, body: str) -> str | None:
    text = _title(path, body) if name == "title" else _first_sentence(path, body)
    return frontmatter.quoted(text) if text else None


def _title(path: str, body: str) -> str:
    """The first top-level heading, else the file's name in words."""
    first = next((h for h in headings(body, prose(path, body)) if h.level == 1 and plain_text(h.text)), None)
    if first:
        return plain_text(first.text)
    name = stem(path)
    if name in INDEXES and posixpath.dirname(path):
        name = posixpath.basename(posixpath.dirname(path))
    words = re.sub(r"[-_]+", " ", name).strip()
    return words[:1].upper() + words[1:]


def _first_sentence(path: str, body: str) -> str:
    """Of the first paragraph that is plain text."""
    shown = prose(path, body)
    paragraph: list[str] = []
    for line, visible in zip(lines_of(body), lines_of(shown), strict=True):
        if paragraph and (visible.is_blank or ATX.match(visible.text) or set(visible.text.strip()) <= {"=", "-"}):
            if not set(visible.text.strip()) & {"=", "-"} or visible.is_blank:
                break
            paragraph = []
        elif (
            not visible.is_blank and (paragraph or not NO_SENTENCE.match(visible.text)) and not ATX.match(visible.text)
        ):
            paragraph.append(line.text.strip())
    text = plain_text(" ".join(paragraph)[:LONGEST_PARAGRAPH])
    sentence = SENTENCE.match(text)
    text = sentence.group() if sentence else text
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " …"
