"""What one page says, told from its bytes alone, so that it can be kept under the id of its content."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple
from urllib.parse import unquote

MAX_PAGE_CHARS = 512_000
"""Characters. What is longer is data rather than a page, and is not looked at."""


Reference = tuple[int, str, str]
"""Line, kind, target. The kind is how it is written, which says where it is looked for: link, import, doc, ref,
toctree, and ways to include. A bare tuple: there are hundreds of thousands, and the garbage collector skips those."""


class PageProblem(NamedTuple):
    rule: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class PageFacts:
    references: tuple[Reference, ...] = ()
    headings: tuple[str, ...] = ()
    """As written, of those whose anchor follows from the text."""
    explicit_ids: tuple[str, ...] = ()
    """Explicit ids."""
    component_titles: tuple[str, ...] = ()
    """Titles of components, of which some make anchors."""
    labels: tuple[str, ...] = ()
    """Sphinx's, which any page of the site may refer to."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Front matter."""
    field_lines: tuple[int, ...] = ()
    is_front_matter_readable: bool = True
    """False where the front matter cannot be read, so that nothing can be said to be missing."""
    problems: tuple[PageProblem, ...] = ()
    is_open_ended: bool = False
    """Other files, macros or generators add to this page, so that its anchors cannot be told."""
    has_toctree_glob: bool = False
    """Its table of contents takes pages in by pattern."""
    dependency_keys: tuple[str, ...] = ()
    """Names of all that its references may depend on; see `keys_of`."""

    @property
    def weight(self) -> int:
        return (
            8 + 2 * len(self.references) + 2 * len(self.headings) + len(self.explicit_ids) + len(self.component_titles)
        )


UNKNOWN_FACTS = PageFacts(is_open_ended=True, is_front_matter_readable=False)


def collect_dependency_keys(references: Iterable[Reference]) -> tuple[str, ...]:
    """The last name of each reference, and all names of an address from the top, which may be told by any of them.

    A change to files of other names cannot change where these references lead."""
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
    """A file's name up to its first dot or colon, so that extensions, versions and line numbers do not matter."""
    return name.partition(".")[0].partition(":")[0] or name
