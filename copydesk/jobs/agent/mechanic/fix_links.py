"""Fixes broken internal links where exactly one target can be meant, and lists the others."""

import posixpath
import re
from collections import Counter
from functools import cached_property
from urllib.parse import unquote

from copydesk.jobs.agent.mechanic.instructions import FixLinks
from copydesk.jobs.agent.mechanic.plan import Edits, Plan, counted, listed, pages_in
from copydesk.jobs.pages.headings import anchors
from copydesk.jobs.pages.lines import line_at, lines_of
from copydesk.jobs.pages.link_targets import Resolved, Site, bases, rewritten, split
from copydesk.jobs.pages.links import Link, links
from copydesk.jobs.pages.page_types import INDEXES, MARKDOWN, PAGES, extension, stem, without_extension
from copydesk.jobs.pages.prose import prose
from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher
from copydesk.jobs.workspace.text_edits import Text, is_text
from copydesk.jobs.workspace.workspace import Workspace

CLOSE, SHORTEST = 0.86, 4
LONGEST_NAME = 100
MAX_COMPARISONS, MAX_STEPS_PER_NAME = 5000, 10_000
"""Limits the comparisons of names that have nearly the same letters, in one job."""
NUMBER = re.compile(r"\d+")
NOT_HEADINGS = re.compile(r"L\d+(-L\d+)?$|:~:|top$|/|!")


def plan(workspace: Workspace, asked: FixLinks) -> Plan:
    made, fixer = Plan(), Fixer(workspace)
    fixed = 0
    for path in pages_in(workspace, asked.scope, made):
        data = workspace.read(path)
        if extension(path) not in MARKDOWN or not is_text(data):
            continue
        edits = fixer.edits(path, Text.of(data).body)
        if edits and made.is_full:
            made.note_rest()
            break
        if edits and made.edit(path, data, edits):
            fixed += len(edits)
    if fixed:
        made.notes.insert(0, f"Fixed {counted(fixed, 'link')} in {counted(made.files, 'file')}.")
    elif not made.notes:
        made.notes.append("No broken link was found." if not fixer.undecided else "No broken link could be fixed.")
    if fixer.undecided:
        made.notes.append(f"Left for a person, no single target being clear: {listed(fixer.undecided, 50)}.")
    return made


class Fixer:
    def __init__(self, workspace: Workspace) -> None:
        self.undecided: list[str] = []
        self._workspace = workspace
        self._site = Site(workspace.paths())
        self._anchors: dict[str, dict[str, list[str]]] = {}
        self._comparisons_left = MAX_COMPARISONS

    def edits(self, path: str, body: str) -> Edits:
        edits: Edits = []
        lines = lines_of(body)
        for link in links(path, body):
            if not link.is_internal and not link.target.startswith("#"):
                continue
            target = self._fixed(path, link)
            if target is None:
                self.undecided.append(f"{path}:{line_at(lines, link.start).number} {link.target}")
            elif target != link.target:
                edits.append((link.start, link.end, target))
        return edits

    def _fixed(self, page: str, link: Link) -> str | None:
        """The link as it should be; None where that cannot be told."""
        target = link.target
        if target.startswith("#"):
            return self._with_anchor(page, target)
        found = self._site.resolve(page, target)
        if found is None:
            candidate = self._meant(page, target)
            if candidate is None:
                return target if self._is_folder(page, target) else None
            target = _written(page, target, candidate)
            found = self._site.resolve(page, target)
            if found is None or found.file != candidate:
                return None
        return self._with_anchor(found.file, target)

    def _is_folder(self, page: str, target: str) -> bool:
        path = unquote(split(target)[0]).lstrip("/")
        return any(posixpath.normpath(posixpath.join(base, path)) in self._site.folders for base in bases(page, target))

    @cached_property
    def _known(self) -> dict[str, dict[str, list[str]]]:
        """Paths by kind and by name, so that a link is compared with its likes only."""
        known: dict[str, dict[str, list[str]]] = {}
        for path in sorted(self._site.paths):
            known.setdefault(_kind(path), {}).setdefault(stem(path).casefold(), []).append(path)
        return known

    @cached_property
    def _by_numbers(self) -> dict[tuple[str, ...], list[str]]:
        """Names by kind and by the numbers in them. Names that differ by a number are different names."""
        found: dict[tuple[str, ...], list[str]] = {}
        for kind, names in self._known.items():
            for name in names:
                if name not in INDEXES:
                    found.setdefault((kind, *NUMBER.findall(name)), []).append(name)
        return found

    def _close(self, kind: str, name: str) -> str:
        """The one name that is nearly this one, or none; none either when the job has compared enough of them."""
        if not SHORTEST <= len(name) <= LONGEST_NAME:
            return ""
        alike = [
            other for other in self._by_numbers.get((kind, *NUMBER.findall(name)), []) if _may_be_close(name, other)
        ]
        self._comparisons_left -= len(alike)
        if self._comparisons_left < 0:
            return ""
        close = [other for other in alike if BoundedMatcher(other, name, MAX_STEPS_PER_NAME).ratio() >= CLOSE]
        return close[0] if len(close) == 1 else ""

    def _meant(self, page: str, target: str) -> str | None:
        """Ever looser likenesses; the first that anything shares decides, if it is one thing only."""
        places = {_bare(place).casefold() for place in _places(page, target)}
        wanted = unquote(split(target)[0]).rstrip("/")
        names = self._known.get(_kind(wanted), {})
        same = names.get(stem(wanted).casefold(), [])
        named = [path for path in same if stem(path) not in INDEXES]
        for found in (
            [path for path in same if _bare(path).casefold() in places],
            [path for path in named if posixpath.basename(path) == posixpath.basename(wanted)],
            named,
            names.get(self._close(_kind(wanted), stem(wanted).casefold()), []),
        ):
            if found:
                return found[0] if len(found) == 1 else None
        return None

    def _with_anchor(self, file: str, target: str) -> str | None:
        mark = target.find("#")
        wanted = unquote(target[mark + 1 :])
        if mark < 0 or not wanted or extension(file) not in MARKDOWN or NOT_HEADINGS.match(wanted):
            return target
        same = self._group_anchors(file).get(_letters(wanted), [])
        if wanted in same:
            return target
        return f"{target[:mark]}#{same[0]}" if len(same) == 1 else None

    def _group_anchors(self, file: str) -> dict[str, list[str]]:
        """Returns the anchors of a page, by their letters."""
        if file not in self._anchors:
            data = self._workspace.read(file) if self._workspace.is_readable(file) else b""
            body = Text.of(data).body if is_text(data) else ""
            known = self._anchors[file] = {}
            for anchor in anchors(body, prose(file, body)):
                known.setdefault(_letters(anchor), []).append(anchor)
        return self._anchors[file]


def _places(page: str, target: str) -> list[str]:
    """The paths that a broken link may name."""
    path = unquote(split(target)[0])
    return [posixpath.normpath(posixpath.join(base, path.strip("/"))) for base in bases(page, path)]


def _may_be_close(name: str, other: str) -> bool:
    """Whether two names can be close at all, told from their lengths and their letters in any order."""
    least = CLOSE * (len(name) + len(other)) / 2
    return min(len(name), len(other)) >= least and (Counter(name) & Counter(other)).total() >= least


def _written(page: str, target: str, file: str) -> str:
    path = split(target)[0]
    extensionless = extension(path) not in PAGES and extension(path) != ".html" and extension(file) in PAGES
    tail = ".html" if extension(path) == ".html" else "/" if path.endswith("/") else ""
    cut = posixpath.splitext(file)[1] if extensionless or tail == ".html" else ""
    roots = [base for base in bases(page, path) if base and file.startswith(base + "/")] if path.startswith("/") else []
    named_root = path.strip("/").split("/")[0] == file.split("/")[0]
    base = roots[0] if roots and not named_root else "" if path.startswith("/") else posixpath.dirname(page)
    return rewritten(target, page, Resolved(file, base, cut, tail), file)


def _bare(path: str) -> str:
    return without_extension(path) if extension(path) in (*PAGES, ".html") else path


def _kind(path: str) -> str:
    """Pages are exchangeable with pages; an image only with an image of its kind."""
    return "" if extension(path) in (*PAGES, ".html", "") else extension(path)


def _letters(anchor: str) -> str:
    return re.sub(r"[\W_]+", "", anchor.casefold())
