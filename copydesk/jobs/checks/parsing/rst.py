"""Reads the facts of a reStructuredText page."""

import re
from collections.abc import Iterator

from copydesk.jobs.checks.parsing.page_facts import Facts, Reference, keys_of
from copydesk.jobs.pages.links import FILLED_IN, toctree
from copydesk.jobs.pages.prose import without_blocks

ROLE = re.compile(r"(?<![\w`]):(doc|ref|numref|download):`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
DIRECTIVE = re.compile(r"^[ \t]*\.\. (?:\|[^|\n]+\|[ ])?(image|figure|include|literalinclude)::[ \t]+(\S[^\n]*)", re.M)
LABEL = re.compile(r"^[ \t]*\.\. _(`[^`\n]+`|[^:\n]+):[ \t]*\r?$", re.M)
NAME = re.compile(r"^[ \t]+:name:[ \t]*(\S[^\n]*)", re.M)
ORPHAN = re.compile(r"^:orphan:[ \t]*\r?$", re.M)
ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|<|#")


def facts_of(body: str) -> Facts:
    """Links to addresses (`text <page.html>`_) are left alone: they are written for what the build makes."""
    text = without_blocks(".rst", body) if "::" in body or ".." in body else body
    references = tuple(_references(body, text))
    labels = tuple(found.strip("` ").lower() for found in LABEL.findall(text)) if ".. _" in text else ()
    labels += tuple(_trimmed(found).lower() for found in NAME.findall(text)) if ":name:" in text else ()
    return Facts(
        references=references,
        anchors=labels,
        labels=labels,
        fields={"orphan": True} if ":orphan:" in body and ORPHAN.search(body) else {},
        has_fields=False,
        open_ended=True,
        globbed=":glob:" in body,
        keys=keys_of(references),
    )


def _trimmed(rest: str) -> str:
    """Returns the rest of a line without its ending and the spaces before it."""
    return rest.removesuffix("\r").rstrip(" \t")


def _references(body: str, text: str) -> Iterator[Reference]:
    found: list[tuple[int, str, str]] = []
    if ":`" in text:
        found += [(match.start(2), match[1].replace("num", ""), match[2].strip()) for match in ROLE.finditer(text)]
    if "::" in text:
        found += [(match.start(2), match[1], _trimmed(match[2])) for match in DIRECTIVE.finditer(text)]
        found += [(start, "toctree", body[start:end]) for start, end in toctree(text)]
    line, position = 1, 0
    for start, kind, target in sorted(found):
        if ELSEWHERE.match(target) or FILLED_IN.search(target) or target.startswith(("!", "~")):
            continue
        line += body.count("\n", position, start)
        position = start
        yield line, kind, target
