"""Parses the facts of a reStructuredText page."""

import re
from collections.abc import Iterator

from copydesk.jobs.checks.parsing.page_facts import PageFacts, Reference, collect_dependency_keys
from copydesk.jobs.pages.links import PLACEHOLDER_PATTERN, find_toctree_entries
from copydesk.jobs.pages.prose import mask_code_blocks

ROLE_PATTERN = re.compile(r"(?<![\w`]):(doc|ref|numref|download):`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
DIRECTIVE_PATTERN = re.compile(
    r"^[ \t]*\.\. (?:\|[^|\n]+\|[ ])?(image|figure|include|literalinclude)::[ \t]+(\S[^\n]*)", re.M
)
LABEL_PATTERN = re.compile(r"^[ \t]*\.\. _(`[^`\n]+`|[^:\n]+):[ \t]*\r?$", re.M)
NAME_OPTION_PATTERN = re.compile(r"^[ \t]+:name:[ \t]*(\S[^\n]*)", re.M)
ORPHAN_PATTERN = re.compile(r"^:orphan:[ \t]*\r?$", re.M)
NON_FILE_TARGET_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|<|#")


def parse_rst_page(body: str) -> PageFacts:
    """Parses the facts of a page. Skips links to URLs (`text <page.html>`_), which refer to the output of the build."""
    text = mask_code_blocks(".rst", body) if "::" in body or ".." in body else body
    references = tuple(_find_references(body, text))
    labels = tuple(found.strip("` ").lower() for found in LABEL_PATTERN.findall(text)) if ".. _" in text else ()
    labels += (
        tuple(_trim_line_end(found).lower() for found in NAME_OPTION_PATTERN.findall(text)) if ":name:" in text else ()
    )
    return PageFacts(
        references=references,
        explicit_ids=labels,
        labels=labels,
        fields={"orphan": True} if ":orphan:" in body and ORPHAN_PATTERN.search(body) else {},
        is_front_matter_readable=False,
        is_open_ended=True,
        has_toctree_glob=":glob:" in body,
        dependency_keys=collect_dependency_keys(references),
    )


def _trim_line_end(text: str) -> str:
    """Removes the line ending and the spaces before it."""
    return text.removesuffix("\r").rstrip(" \t")


def _find_references(body: str, text: str) -> Iterator[Reference]:
    matches: list[tuple[int, str, str]] = []
    if ":`" in text:
        matches += [
            (match.start(2), match[1].replace("num", ""), match[2].strip()) for match in ROLE_PATTERN.finditer(text)
        ]
    if "::" in text:
        matches += [(match.start(2), match[1], _trim_line_end(match[2])) for match in DIRECTIVE_PATTERN.finditer(text)]
        matches += [(start, "toctree", body[start:end]) for start, end in find_toctree_entries(text)]
    line, position = 1, 0
    for start, kind, target in sorted(matches):
        if NON_FILE_TARGET_PATTERN.match(target) or PLACEHOLDER_PATTERN.search(target) or target.startswith(("!", "~")):
            continue
        line += body.count("\n", position, start)
        position = start
        yield line, kind, target
