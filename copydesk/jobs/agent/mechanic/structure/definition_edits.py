"""Removes a link that is defined apart from its text in Markdown: `[text][label]`, and `[label]: page.md` elsewhere."""

import re
from collections.abc import Iterator

from copydesk.jobs.agent.mechanic.structure.list_edits import Edit, remove_lines
from copydesk.jobs.pages.lines import Span, line_at, split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.prose import mask_non_prose

DEFINITION_PATTERN = re.compile(r"^[ ]{0,3}\[(?P<label>[^\[\]\n]+)\]:[ \t]*<?", re.M)
DEFINITION_END_PATTERN = re.compile(r">?(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$", re.M)
USE_PATTERN = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\[\]\n]*\]){1,500})\](?:\[(?P<label>[^\[\]]{0,500})\])?(?![(\[:])")


def remove_definition(path: str, body: str, target: Span) -> list[tuple[Edit, Span]] | None:
    """Returns the edits that remove a definition and the links that use it, and the whole span of each such link.

    Returns None if the target is in no definition, if the page defines its label twice, or if an image uses it."""
    if extension(path) not in MARKDOWN_EXTENSIONS:
        return None
    prose = mask_non_prose(path, body)
    definitions = {match.end(): _normalize_label(match["label"]) for match in DEFINITION_PATTERN.finditer(prose)}
    label = definitions.get(target[0])
    if (
        label is None
        or list(definitions.values()).count(label) > 1
        or not DEFINITION_END_PATTERN.match(body, target[1])
    ):
        return None
    lines = split_lines(body)
    index = line_at(lines, target[0]).number - 1
    edits = [(remove_lines(lines, index, index + 1, body), (lines[index].start, lines[index].end))]
    for start, end, text in _find_uses(prose, body, label):
        if body[start - 1 : start] == "!":
            return None
        edits.append(((start, end, text), (start, end)))
    return edits


def _find_uses(prose: str, body: str, label: str) -> Iterator[Edit]:
    """Yields the links with this label, each with the text that stays. Code in a text is not in `prose`."""
    for match in USE_PATTERN.finditer(prose):
        text = body[slice(*match.span("text"))]
        if _normalize_label(match["label"] or text) == label:
            yield match.start(), match.end(), text


def _normalize_label(label: str) -> str:
    return " ".join(label.casefold().split())
