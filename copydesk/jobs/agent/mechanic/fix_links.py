"""Fixes broken internal links that have exactly one possible target, and lists the others."""

import posixpath
import re
from collections import Counter
from functools import cached_property
from urllib.parse import unquote

from copydesk.jobs.agent.mechanic.instructions import FixLinks
from copydesk.jobs.agent.mechanic.plan import EditPlan, Edits, find_pages, join_limited, pluralize
from copydesk.jobs.pages.headings import find_anchors
from copydesk.jobs.pages.lines import line_at, split_lines
from copydesk.jobs.pages.link_targets import (
    RepositoryPaths,
    ResolvedLink,
    list_base_folders,
    rewrite_target,
    split_target,
)
from copydesk.jobs.pages.links import Link, find_links
from copydesk.jobs.pages.page_types import (
    INDEX_NAMES,
    MARKDOWN_EXTENSIONS,
    PAGE_EXTENSIONS,
    extension,
    stem,
    strip_extension,
)
from copydesk.jobs.pages.prose import mask_non_prose
from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

MIN_SIMILARITY, MIN_NAME_CHARS = 0.86, 4
MAX_NAME_CHARS = 100
MAX_COMPARISONS, MAX_STEPS_PER_NAME = 5000, 10_000
"""Limits the comparisons of names with nearly the same letters: their number in one job, and the steps of each."""
NUMBER_PATTERN = re.compile(r"\d+")
NOT_HEADING_PATTERN = re.compile(r"L\d+(-L\d+)?$|:~:|top$|/|!")


def plan_link_fixes(workspace: Workspace, instruction: FixLinks) -> EditPlan:
    plan, fixer = EditPlan(), LinkFixer(workspace)
    fixed = 0
    for path in find_pages(workspace, instruction.scope, plan):
        data = workspace.read(path)
        if extension(path) not in MARKDOWN_EXTENSIONS or not is_text(data):
            continue
        edits = fixer.find_edits(path, DecodedText.decode(data).body)
        if edits and plan.is_full:
            plan.note_limit_reached()
            break
        if edits and plan.add_edits(path, data, edits):
            fixed += len(edits)
    if fixed:
        plan.notes.insert(0, f"Fixed {pluralize(fixed, 'link')} in {pluralize(plan.file_count, 'file')}.")
    elif not plan.notes:
        plan.notes.append("No broken link was found." if not fixer.undecided else "No broken link could be fixed.")
    if fixer.undecided:
        plan.notes.append(f"Needs a person, because no single target is clear: {join_limited(fixer.undecided, 50)}.")
    return plan


class LinkFixer:
    def __init__(self, workspace: Workspace) -> None:
        self.undecided: list[str] = []
        self._workspace = workspace
        self._site = RepositoryPaths(workspace.paths())
        self._anchors: dict[str, dict[str, list[str]]] = {}
        self._comparisons_left = MAX_COMPARISONS

    def find_edits(self, path: str, body: str) -> Edits:
        edits: Edits = []
        lines = split_lines(body)
        for link in find_links(path, body):
            if not link.is_internal and not link.target.startswith("#"):
                continue
            target = self._fix_target(path, link)
            if target is None:
                self.undecided.append(f"{path}:{line_at(lines, link.start).number} {link.target}")
            elif target != link.target:
                edits.append((link.start, link.end, target))
        return edits

    def _fix_target(self, page: str, link: Link) -> str | None:
        """Returns the correct target of the link; None when it cannot be determined."""
        target = link.target
        if target.startswith("#"):
            return self._fix_anchor(page, target)
        resolved = self._site.resolve(page, target)
        if resolved is None:
            candidate = self._guess_target(page, target)
            if candidate is None:
                return target if self._is_folder(page, target) else None
            target = _rewrite_target(page, target, candidate)
            resolved = self._site.resolve(page, target)
            if resolved is None or resolved.file != candidate:
                return None
        return self._fix_anchor(resolved.file, target)

    def _is_folder(self, page: str, target: str) -> bool:
        path = unquote(split_target(target)[0]).lstrip("/")
        return any(
            posixpath.normpath(posixpath.join(base, path)) in self._site.folders
            for base in list_base_folders(page, target)
        )

    @cached_property
    def _paths_by_kind_and_name(self) -> dict[str, dict[str, list[str]]]:
        """Paths by kind and by name, so that a link is only compared with files of its kind."""
        paths: dict[str, dict[str, list[str]]] = {}
        for path in sorted(self._site.paths):
            paths.setdefault(_file_kind(path), {}).setdefault(stem(path).casefold(), []).append(path)
        return paths

    @cached_property
    def _names_by_numbers(self) -> dict[tuple[str, ...], list[str]]:
        """Names by kind and by the numbers in them. Names with different numbers are never treated as similar."""
        names_by_numbers: dict[tuple[str, ...], list[str]] = {}
        for kind, names in self._paths_by_kind_and_name.items():
            for name in names:
                if name not in INDEX_NAMES:
                    names_by_numbers.setdefault((kind, *NUMBER_PATTERN.findall(name)), []).append(name)
        return names_by_numbers

    def _find_similar_name(self, kind: str, name: str) -> str:
        """Returns the only similar name; "" when there is none or more than one, or after MAX_COMPARISONS."""
        if not MIN_NAME_CHARS <= len(name) <= MAX_NAME_CHARS:
            return ""
        candidates = [
            other
            for other in self._names_by_numbers.get((kind, *NUMBER_PATTERN.findall(name)), [])
            if _may_be_similar(name, other)
        ]
        self._comparisons_left -= len(candidates)
        if self._comparisons_left < 0:
            return ""
        similar = [
            other for other in candidates if BoundedMatcher(other, name, MAX_STEPS_PER_NAME).ratio() >= MIN_SIMILARITY
        ]
        return similar[0] if len(similar) == 1 else ""

    def _guess_target(self, page: str, target: str) -> str | None:
        """Returns the file that a broken link probably means, or None.

        Compares ever more loosely: same path, same file name, same name without extension, similar name. The first
        comparison with a match decides, and only if it matches exactly one file.
        """
        possible_paths = {_without_page_extension(place).casefold() for place in _possible_paths(page, target)}
        link_path = unquote(split_target(target)[0]).rstrip("/")
        names = self._paths_by_kind_and_name.get(_file_kind(link_path), {})
        same_name = names.get(stem(link_path).casefold(), [])
        non_index = [path for path in same_name if stem(path) not in INDEX_NAMES]
        for matches in (
            [path for path in same_name if _without_page_extension(path).casefold() in possible_paths],
            [path for path in non_index if posixpath.basename(path) == posixpath.basename(link_path)],
            non_index,
            names.get(self._find_similar_name(_file_kind(link_path), stem(link_path).casefold()), []),
        ):
            if matches:
                return matches[0] if len(matches) == 1 else None
        return None

    def _fix_anchor(self, file: str, target: str) -> str | None:
        hash_index = target.find("#")
        anchor = unquote(target[hash_index + 1 :])
        if (
            hash_index < 0
            or not anchor
            or extension(file) not in MARKDOWN_EXTENSIONS
            or NOT_HEADING_PATTERN.match(anchor)
        ):
            return target
        similar_anchors = self._group_anchors(file).get(_letters_and_digits(anchor), [])
        if anchor in similar_anchors:
            return target
        return f"{target[:hash_index]}#{similar_anchors[0]}" if len(similar_anchors) == 1 else None

    def _group_anchors(self, file: str) -> dict[str, list[str]]:
        """Returns the anchors of a page, grouped by their letters and digits."""
        if file not in self._anchors:
            data = self._workspace.read(file) if self._workspace.is_readable(file) else b""
            body = DecodedText.decode(data).body if is_text(data) else ""
            groups = self._anchors[file] = {}
            for anchor in find_anchors(body, mask_non_prose(file, body)):
                groups.setdefault(_letters_and_digits(anchor), []).append(anchor)
        return self._anchors[file]


def _possible_paths(page: str, target: str) -> list[str]:
    """Returns the paths that a broken link may refer to."""
    path = unquote(split_target(target)[0])
    return [posixpath.normpath(posixpath.join(base, path.strip("/"))) for base in list_base_folders(page, path)]


def _may_be_similar(name: str, other: str) -> bool:
    """Returns whether two names can be similar, judged only by their lengths and by their letters in any order."""
    min_shared_letters = MIN_SIMILARITY * (len(name) + len(other)) / 2
    return (
        min(len(name), len(other)) >= min_shared_letters
        and (Counter(name) & Counter(other)).total() >= min_shared_letters
    )


def _rewrite_target(page: str, target: str, file: str) -> str:
    path = split_target(target)[0]
    extensionless = (
        extension(path) not in PAGE_EXTENSIONS and extension(path) != ".html" and extension(file) in PAGE_EXTENSIONS
    )
    suffix = ".html" if extension(path) == ".html" else "/" if path.endswith("/") else ""
    removed_extension = posixpath.splitext(file)[1] if extensionless or suffix == ".html" else ""
    roots = (
        [base for base in list_base_folders(page, path) if base and file.startswith(base + "/")]
        if path.startswith("/")
        else []
    )
    named_root = path.strip("/").split("/")[0] == file.split("/")[0]
    base = roots[0] if roots and not named_root else "" if path.startswith("/") else posixpath.dirname(page)
    return rewrite_target(target, page, ResolvedLink(file, base, removed_extension, suffix), file)


def _without_page_extension(path: str) -> str:
    return strip_extension(path) if extension(path) in (*PAGE_EXTENSIONS, ".html") else path


def _file_kind(path: str) -> str:
    """Returns "" for a page, else the extension. Any page can replace a page, but a PNG only another PNG."""
    return "" if extension(path) in (*PAGE_EXTENSIONS, ".html", "") else extension(path)


def _letters_and_digits(anchor: str) -> str:
    return re.sub(r"[\W_]+", "", anchor.casefold())
