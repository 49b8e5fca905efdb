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


class UnjudgedRule(NamedTuple):
    rule: str
    reason: str


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
    names: tuple[str, ...] = ()
    """Titles and targets of a reStructuredText page that its own references name."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the front matter."""
    field_lines: tuple[int, ...] = ()
    is_front_matter_readable: bool = True
    """False if the front matter cannot be parsed; then no field is reported as missing."""
    problems: tuple[PageProblem, ...] = ()
    unjudged: tuple[UnjudgedRule, ...] = ()
    """Rules that cannot judge this page, each with the reason."""
    open_reason: str = ""
    """Why macros or generators may add anchors to this page; empty if they do not."""
    text_includes: tuple[tuple[str, str], ...] = ()
    """Kind and target of the references whose files become a part of this page's text."""
    stub_folders: tuple[str, ...] = ()
    """Folders, relative to the page, in which autosummary creates pages."""
    has_shortcodes: bool = False
    """True if comments such as `<!-- md:option x -->` may be replaced by a hook."""
    has_fences: bool = False
    has_toctree_glob: bool = False
    """True if the page's table of contents includes pages by pattern."""
    dependency_keys: tuple[str, ...] = ()
    """Names that the page's references may depend on; see `collect_dependency_keys`."""

    @property
    def weight(self) -> int:
        return (
            8 + 2 * len(self.references) + 2 * len(self.headings) + len(self.explicit_ids) + len(self.component_titles)
        )


PAGE_RULES = ("link", "anchor", "image", "include", "front-matter", "mdx", "fence")


def build_unknown_facts(reason: str = "") -> PageFacts:
    """Returns the facts of a page that is not parsed. `reason` says why; it is empty if there is nothing to parse."""
    return PageFacts(
        unjudged=tuple(UnjudgedRule(rule, reason) for rule in PAGE_RULES) if reason else (),
        open_reason=reason or "the page is empty",
        is_front_matter_readable=False,
    )


def collect_dependency_keys(references: Iterable[NumberedReference]) -> tuple[str, ...]:
    """Returns the last name of each reference, and every name of an absolute address, since any of them may resolve it.

    A change to files with other names cannot change where these references lead."""
    keys: set[str] = set()
    for _, kind, target in references:
        if kind == "ref":
            keys.add(f"ref {target.lower()}")
        if kind in ("ref", "name"):
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
