"""Finds every reference of a page to a file, with its position: links, images, includes, imports, tables of contents.

Editors and checks use the same references. An editor may change a reference that is not sure, because it changes only
references that lead to a certain file; a check reports only sure ones.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import intern
from typing import NamedTuple

from copydesk.jobs.pages.lines import Span, iter_lines

# URLs, queries, anchors of the page layout, ellipses, and targets that a template fills in.
NON_FILE_TARGET_PATTERN = re.compile(
    r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|\?|#?$|#(?:top$|/|:~:|!)|\.{3}$|[^<{}$*\\@…]*+(?:[<{}$*\\…]|(?<=[^@])@/)"
)
TOCTREE_PATTERN = re.compile(r"^(?P<indent>[ \t]*)(?:\.\. toctree::|(?P<fence>[`:~]{3,})\{toctree\}).*$", re.M)
TOCTREE_ENTRY_PATTERN = re.compile(
    r"[ \t]*(?!:[\w-]+:|---|[`:~]{3,})(?:[^\s<>][^<>\n]*<([^<>\n]+)>|([^\s<>:][^\s<>]*))[ \t]*$"
)


class Reference(NamedTuple):
    """A reference to a file. `target` is body[start:end], as written."""

    start: int
    end: int
    kind: str
    """The syntax of the reference, which decides where the target is searched for: link, html for an attribute of raw
    HTML or of a component, import, script for an import in a script block, doc, ref, toctree, a kind of include, or
    name for a title or target of the same reStructuredText page."""
    target: str
    is_sure: bool = True
    """False if this may be no reference at all."""

    @property
    def names_file(self) -> bool:
        """Returns whether the target is a file of this repository: no URL, bare anchor or template placeholder."""
        return self.kind != "name" and names_file_or_anchor(self.target) and not self.target.startswith("#")


LINK_KINDS = ("link", "html")
"""Kinds of references that lead to a page, a file or a folder by its path or its address."""
NumberedReference = tuple[int, str, str]
"""Line, kind and target. A bare tuple, because there are hundreds of thousands and the garbage collector skips tuples
of plain values."""


def names_file_or_anchor(target: str) -> bool:
    """Returns whether a target can be looked up in this repository."""
    return NON_FILE_TARGET_PATTERN.match(target) is None


def remove_overlaps(references: Iterable[Reference]) -> list[Reference]:
    """Returns the references in order, without those that overlap an earlier one."""
    result: list[Reference] = []
    for reference in sorted(references):
        if not result or reference.start >= result[-1].end:
            result.append(reference)
    return result


def number_lines(body: str, references: Iterable[Reference]) -> tuple[NumberedReference, ...]:
    """Returns the sure references that can be looked up, with line numbers."""
    numbered: list[NumberedReference] = []
    line = 1
    position = 0
    for start, _, kind, target, is_sure in sorted(set(references)):
        if is_sure and (kind in ("ref", "name") or names_file_or_anchor(target)):
            line += body.count("\n", position, start)
            position = start
            numbered.append((line, kind, intern(target)))
    return tuple(numbered)


def find_toctree_entries(body: str) -> Iterator[Span]:
    """Yields the entries of Sphinx tables of contents: `path` or `Title <path>`."""
    table_end = 0
    for table in TOCTREE_PATTERN.finditer(body):
        if not table["fence"] and table.start() < table_end:
            continue  # nested in another table, which has yielded its entries already
        for line in islice(iter_lines(body, table.end()), 1, None):
            if table["fence"] and line.text.strip().startswith(table["fence"]):
                break
            if not table["fence"]:
                if not line.is_blank and line.indent <= len(table["indent"]):
                    break
                table_end = line.next_start
            entry = TOCTREE_ENTRY_PATTERN.match(line.text)
            if entry and entry.lastindex:
                start, end = entry.span(entry.lastindex)
                yield line.start + start, line.start + end
