"""Finds the references of pages in reStructuredText and AsciiDoc."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages.lines import mask_spans
from copydesk.jobs.pages.parsing.references import Reference, find_toctree_entries

ROLE_PATTERN = re.compile(r"(?<![\w`]):(?:[\w-]+:)?(doc|ref|numref|download):`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
DIRECTIVE_PATTERN = re.compile(
    r"^[ \t]*\.\. (?:\|[^|\n]+\|[ ])?(image|figure|include|literalinclude)::[ \t]+(\S[^\n]*)", re.M
)
NAME_REFERENCE_PATTERN = re.compile(r"(?<![\w`:<])`([^`<>\n]+)`_(?![_\w])")
NAME_DEFINITION_PATTERN = re.compile(
    r"^[ \t]*\.\. _(?:`([^`\n]+)`|([^:`\n]+)):|(?<![\w`])_`([^`\n]+)`|(?<![\w`:])`([^`<>\n]+?)[ ]*<[^`<>\n]+>`_(?!_)",
    re.M,
)
TITLE_PATTERN = re.compile(r"^(\S[^\r\n]*?)[ \t]*\r?\n([!-/:-@\[-`{-~])\2+[ \t]*\r?$", re.M)
LITERAL_PATTERN = re.compile(r"``[^`\n]+(?:`[^`\n]+)*``")
# Links to URLs usually name the output of the build, not a file of the repository.
URL_LINK_PATTERN = re.compile(r"`[^`<]*<([^`<>\n]+)>`__?|^[ \t]*\.\. _[^:\n]+:[ \t]+(\S+)", re.M)
# Consumes a target without a following bracket whole, without a group: a match inside it would fail at the same point.
ADOC_LINK_PATTERN = re.compile(r"(?:link|xref|include|image):{1,2}(?:([^\s\[\]:][^\s\[\]]*+)\[|[^\s\[\]:][^\s\[\]]*+)")
ADOC_REFERENCE_PATTERN = re.compile(r"<<([^\s<>,#]+\.adoc)")
NOT_A_TARGET = ("!", "~", "#")
"""First characters of a target that is no reference: an escaped role, a shortened name, a bare anchor."""


def find_rst_references(visible: str) -> Iterator[Reference]:
    """Yields the references of a page. `visible` is its body with code blocks masked."""
    if "``" in visible:
        visible = mask_spans(visible, [match.span() for match in LITERAL_PATTERN.finditer(visible)])
    if ":`" in visible:
        for match in ROLE_PATTERN.finditer(visible):
            yield from _build_reference(match[1].replace("num", ""), match, 2)
    if "::" in visible:
        for match in DIRECTIVE_PATTERN.finditer(visible):
            yield from _build_reference(match[1], match, 2)
        for start, end in find_toctree_entries(visible):
            if not visible.startswith(NOT_A_TARGET, start):
                yield Reference(start, end, "toctree", visible[start:end])
    if "`_" in visible:
        for match in NAME_REFERENCE_PATTERN.finditer(visible):
            yield Reference(*match.span(1), "name", match[1])
    if "<" in visible or ".. _" in visible:
        for match in URL_LINK_PATTERN.finditer(visible):
            yield from _build_reference("link", match, match.lastindex or 0, is_sure=False)


def find_rst_names(visible: str) -> Iterator[str]:
    """Yields the names that references such as `Some title`_ may use on this page, as docutils compares them."""
    for _, _, title in find_rst_titles(visible):
        yield normalize_name(title)
    for match in NAME_DEFINITION_PATTERN.finditer(visible):
        yield normalize_name(match[match.lastindex or 0])


def find_rst_titles(visible: str) -> Iterator[tuple[int, int, str]]:
    """Yields the start, the end and the text of each title."""
    for match in TITLE_PATTERN.finditer(visible):
        yield *match.span(1), match[1]


def normalize_name(name: str) -> str:
    return " ".join(name.lower().split())


def _build_reference(kind: str, match: re.Match[str], group: int, is_sure: bool = True) -> Iterator[Reference]:
    """Yields the reference that a group of the match contains, without the spaces around it."""
    text = match[group]
    target = text.strip()
    if target and not target.startswith(NOT_A_TARGET):
        start = match.start(group) + len(text) - len(text.lstrip())
        yield Reference(start, start + len(target), kind, target, is_sure)


def find_adoc_references(prose: str) -> Iterator[Reference]:
    for pattern in (ADOC_LINK_PATTERN, ADOC_REFERENCE_PATTERN):
        for match in pattern.finditer(prose):
            if match[1]:
                yield Reference(*match.span(1), "link", match[1])
