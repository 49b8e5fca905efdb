"""Facts of one page, parsed from its bytes alone, so that they can be cached by the ID of its content."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple
from urllib.parse import unquote

from copydesk.jobs.pages.parsing.references import NumberedReference

MAX_PAGE_CHARS = 512_000
"""A longer file is data rather than a page, and is not parsed."""


class PageProblem(NamedTuple):
    rule: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class PageFacts:
    references: tuple[NumberedReference, ...] = ()
    headings: tuple[str, ...] = ()
    """Texts of the headings without an explicit ID, as written; their anchors are generated from the text."""
    explicit_ids: tuple[str, ...] = ()
    component_titles: tuple[str, ...] = ()
    """Titles of components; anchors are generated from some of them."""
    labels: tuple[str, ...] = ()
    """Sphinx labels, which any page of the site can refer to."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the front matter."""
    field_lines: tuple[int, ...] = ()
    is_front_matter_readable: bool = True
    """False if the front matter cannot be parsed; then no field is reported as missing."""
    problems: tuple[PageProblem, ...] = ()
    is_open_ended: bool = False
    """True if other files, macros or generators add to this page, so that its anchors are unknown."""
    has_toctree_glob: bool = False
    """True if the page's table of contents includes pages by pattern."""
    dependency_keys: tuple[str, ...] = ()
    """Names that the page's references may depend on; see `collect_dependency_keys`."""

    @property
    def weight(self) -> int:
        return (
            8 + 2 * len(self.references) + 2 * len(self.headings) + len(self.explicit_ids) + len(self.component_titles)
        )


UNKNOWN_FACTS = PageFacts(is_open_ended=True, is_front_matter_readable=False)


def collect_dependency_keys(references: Iterable[NumberedReference]) -> tuple[str, ...]:
    """Returns the last name of each reference, and every name of an absolute address, since any of them may resolve it.

    A change to files with other names cannot change where these references lead."""
    keys: set[str] = set()
    for _, kind, target in references:
        if kind == "ref":
            keys.add(f"ref {target.lower()}")
            continue
        path, mark, _ = target.partition("#")
        path = path.partition("?")[0]
        path = unquote(path) if "%" in path else path
        last_name = path.rstrip("/.").rpartition("/")[2]
        last_name = dependency_key(last_name) if last_name else ""
        keys.add(last_name)
        if path[:1] == "/":
            keys.update(map(dependency_key, path.split("/")))
        if mark:
            keys.add(f"# {last_name}")
    return tuple(map(intern, keys))


def dependency_key(name: str) -> str:
    """Returns a file's name up to its first dot or colon, so that extensions, versions and line numbers are ignored."""
    return name.partition(".")[0].partition(":")[0] or name
