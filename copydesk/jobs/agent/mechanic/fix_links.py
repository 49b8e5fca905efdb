"""Finds the targets that broken internal links mean, if there is one clear target, and collects the other links.

A link is broken if the checks say so: both use the same judgment. A link that the checks cannot judge is left alone.
"""

import posixpath
import re
from collections import Counter
from functools import cached_property
from urllib.parse import unquote

from copydesk.jobs.agent.mechanic.instructions import InstructionScope
from copydesk.jobs.agent.mechanic.plan import Edits
from copydesk.jobs.checks.findings import Unjudged
from copydesk.jobs.checks.rules.links import judge_reference
from copydesk.jobs.pages.lines import Span, line_at, split_lines
from copydesk.jobs.pages.page_types import (
    INDEX_NAMES,
    MARKDOWN_NAV_FILES,
    PAGE_EXTENSIONS,
    extension,
    stem,
    strip_extension,
)
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.references import LINK_KINDS, NumberedReference, remove_overlaps
from copydesk.jobs.pages.site.anchors import FRAME_ANCHOR_PATTERN
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import (
    LinkStyle,
    encode_like,
    find_referenced_file,
    list_base_folders,
    relative_path,
    rewrite_target,
)
from copydesk.jobs.pages.site.paths import is_within, split_target, strip_folder
from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher

MIN_SIMILARITY, MIN_NAME_CHARS = 0.86, 4
MIN_SWAPPED_CHARS, MAX_NAME_CHARS = 3, 100
MAX_COMPARISONS, MAX_STEPS_PER_NAME = 5000, 10_000
"""Limits the comparisons of names with nearly the same letters: their number in one job, and the steps of each."""
FIXED_KINDS = (*LINK_KINDS, "doc", "ref", "toctree", "image", "figure", "download")
# Folders of a language or a version, and those above them.
EDITION_FOLDER_PATTERN = re.compile(
    r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?|v?\d+(?:\.[\dx]+)*|version-.+|versioned_docs|i18n|translations|locales?|current|latest"
    r"|next|stable|docs|docusaurus-plugin-content-docs"
)
NUMBER_PATTERN = re.compile(r"\d+")
NON_LETTER_PATTERN = re.compile(r"[\W_]+")
"""The characters in which two names of the same page may differ."""


class LinkFixer:
    """Finds the targets that broken links mean, and collects the links that it leaves, each with file and line."""

    def __init__(self, resolver: LinkResolver) -> None:
        self.undecided: list[str] = []
        self.protected: list[str] = []
        """Links in files that jobs may not change."""
        self.unjudged: list[Unjudged] = []
        self.resolver = resolver
        self._comparisons_left = MAX_COMPARISONS

    def can_judge(self, path: str) -> bool:
        """Returns whether the checks read this page. They skip AsciiDoc, and pages such as fixtures of tests."""
        return path in self.resolver.pages

    def find_edits(self, path: str, body: str, scope: InstructionScope) -> Edits:
        """Returns the edits of the broken references in the lines of the scope, and collects those that it leaves."""
        first, last = scope.lines or (1, len(body) + 1)
        references = dict.fromkeys(self.resolver.pages[path].references)
        problems = {
            reference: problem
            for reference in references
            if first <= reference[0] <= last and (problem := judge_reference(self.resolver, path, *reference[1:]))
        }
        if not problems:
            return []
        spans = _locate_links(path, body)
        menu_kind = "link" if posixpath.basename(path) in MARKDOWN_NAV_FILES else "toctree"
        listed_files = {
            find_referenced_file(self.resolver, path, kind, target)
            for _, kind, target in references
            if kind == menu_kind
        }
        edits: Edits = []
        for reference, problem in problems.items():
            line, kind, target = reference
            if problem.doubt:
                self.unjudged.append(Unjudged(problem.rule, path, line, target, problem.doubt))
                continue
            new = self.fix_target(path, kind, target) if reference in spans else None
            if new is not None and kind == menu_kind and "#" not in target:
                file = find_referenced_file(self.resolver, path, kind, new)
                new = None if file in listed_files else new  # a menu lists a page once
                listed_files.add(file)
            if new is None:
                self.undecided.append(f"{path}:{line} {target}")
            else:
                edits += [(start, end, new) for start, end in spans[reference]]
        return edits

    def fix_target(self, page: str, kind: str, target: str) -> str | None:
        """Returns a target that is not broken, or None when it cannot be determined."""
        new = self._fix_target(page, kind, target)
        return None if new is None or judge_reference(self.resolver, page, kind, new) is not None else new

    def _fix_target(self, page: str, kind: str, target: str) -> str | None:
        """Returns the correct target of a broken link; None when it cannot be determined."""
        if kind == "ref":
            return self._fix_label(page, target)
        if kind not in LINK_KINDS:
            return self._fix_directive(page, kind, target)
        path = split_target(target)[0]
        file = self.resolver.resolve(page, path, is_html=kind == "html") if path else page
        if file is None:
            file = self.guess_target(page, target)
            new_target = None if file is None else self._rewrite_target(page, kind, target, file)
            if file is None or new_target is None:
                return None
            target = new_target
        return self._fix_anchor(file, target)

    def _fix_label(self, page: str, label: str) -> str | None:
        """Returns the only label of the site with the same letters, or two of them swapped; None if none or several."""
        labels = self.resolver.labels.get(self.resolver.site_by_page.get(page), set())
        letters = NON_LETTER_PATTERN.sub("", label.casefold())
        similar = [other for other in labels if NON_LETTER_PATTERN.sub("", other.casefold()) == letters]
        similar = similar or sorted(labels & (list_swapped(label) | list_swapped(label.lower())))
        return similar[0] if len(similar) == 1 and letters else None

    def _fix_directive(self, page: str, kind: str, target: str) -> str | None:
        """Returns the target of a role or directive of Sphinx. A leading slash means the folder of the sources."""
        file = self.guess_target(page, target)
        site = self.resolver.site_by_page.get(page)
        if file is None or site is None:
            return None
        is_name = kind in ("doc", "toctree") and extension(target) not in PAGE_EXTENSIONS
        path = strip_extension(file) if is_name else file
        is_absolute = target.startswith("/") and is_within(path, site.folder)
        new_target = (
            f"/{strip_folder(path, site.folder)}"
            if is_absolute
            else relative_path(path, posixpath.dirname(page), target)
        )
        return new_target if find_referenced_file(self.resolver, page, kind, new_target) == file else None

    def _rewrite_target(self, page: str, kind: str, target: str, file: str) -> str | None:
        """Returns the link to another file in the style of the old one, or by its path; None if neither resolves."""
        path, query_and_anchor = split_target(target)
        by_path = encode_like(relative_path(file, posixpath.dirname(page), path), path) + query_and_anchor
        starts_as_folder = self.resolver.starts_as_folder(page, path, is_html=kind == "html")
        for candidate in (_rewrite_in_style(page, target, file, starts_as_folder), by_path):
            if self.resolver.resolve(page, split_target(candidate)[0], is_html=kind == "html") == file:
                return candidate
        return None

    @cached_property
    def _paths_by_kind_and_name(self) -> dict[str, dict[str, list[str]]]:
        """Paths by kind and by name, so that a link is only compared with files of its kind."""
        paths: dict[str, dict[str, list[str]]] = {}
        for path in sorted(self.resolver.files):
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
        if not MIN_SWAPPED_CHARS <= len(name) <= MAX_NAME_CHARS:
            return ""
        candidates = [
            other
            for other in self._names_by_numbers.get((kind, *NUMBER_PATTERN.findall(name)), [])
            if _may_be_similar(name, other)
        ]
        self._comparisons_left -= len(candidates)
        if self._comparisons_left < 0:
            return ""
        swapped = list_swapped(name)
        similar = [other for other in candidates if other in swapped or _is_similar(other, name)]
        return similar[0] if len(similar) == 1 else ""

    def guess_target(self, page: str, target: str, root: str = "") -> str | None:
        """Returns the file below `root` that a broken link probably means, or None.

        Compares ever more loosely: same path, same folder and file name, same file name, same name without extension,
        similar name. The first comparison with a match decides, and only if it matches exactly one file.
        """
        possible_paths = {_without_page_extension(place).casefold() for place in _possible_paths(page, target)}
        link_path = unquote(split_target(target)[0]).rstrip("/")
        names = self._paths_by_kind_and_name.get(_file_kind(link_path), {})
        same_name = names.get(stem(link_path).casefold(), [])
        non_index = [path for path in same_name if stem(path) not in INDEX_NAMES]
        for matches in (
            [path for path in same_name if _without_page_extension(path).casefold() in possible_paths],
            [path for path in same_name if _ends_with(_without_page_extension(path), link_path)],
            [path for path in non_index if posixpath.basename(path) == posixpath.basename(link_path)],
            non_index,
            names.get(self._find_similar_name(_file_kind(link_path), stem(link_path).casefold()), []),
        ):
            below_root = [path for path in matches if is_within(path, root)]
            if below_root:
                return _choose_nearest(page, below_root)
        return None

    def _fix_anchor(self, file: str, target: str) -> str | None:
        """Returns the link with the page's only anchor of the same letters, or with two of them swapped.

        Returns None if the page has none or several.
        """
        hash_index = target.find("#")
        anchor = unquote(target[hash_index + 1 :])
        if hash_index < 0 or not anchor or file not in self.resolver.pages:
            return target
        anchors = self.resolver.get_anchors(file)
        if anchor in anchors.exact_anchors or FRAME_ANCHOR_PATTERN.match(anchor):
            return target
        similar = anchors.find_similar(anchor)
        if len(similar) == 1:
            return f"{target[:hash_index]}#{similar[0]}"
        if anchors.has(anchor):
            return target
        swapped = anchors.exact_anchors & (list_swapped(anchor) | list_swapped(anchor.lower()))
        return f"{target[:hash_index]}#{min(swapped)}" if len(swapped) == 1 and not similar else None


def _locate_links(path: str, body: str) -> dict[NumberedReference, list[Span]]:
    """Returns where each link that can be fixed is written: its line, its kind and its target."""
    lines = split_lines(body)
    spans: dict[NumberedReference, list[Span]] = {}
    for link in remove_overlaps(each for each in find_references(path, body) if each.kind in FIXED_KINDS):
        if link.is_sure:
            reference = (line_at(lines, link.start).number, link.kind, link.target)
            spans.setdefault(reference, []).append((link.start, link.end))
    return spans


def list_swapped(name: str) -> set[str]:
    """Returns the names that two swapped neighboring characters turn into this one, such as `install` for `intsall`.

    Swapped digits make another number, which is no slip.
    """
    if not MIN_SWAPPED_CHARS <= len(name) <= MAX_NAME_CHARS:
        return set()
    pairs = [(index, name[index : index + 2]) for index in range(len(name) - 1)]
    swapped = {
        name[:index] + pair[::-1] + name[index + 2 :] for index, pair in pairs if not any(map(str.isdigit, pair))
    }
    return swapped - {name}


def _is_similar(name: str, other: str) -> bool:
    is_long_enough = len(other) >= MIN_NAME_CHARS
    return is_long_enough and BoundedMatcher(name, other, MAX_STEPS_PER_NAME).ratio() >= MIN_SIMILARITY


def _ends_with(path: str, link_path: str) -> bool:
    """Returns whether a path ends with the folder and the name of a broken link, which has a folder."""
    names = [name for name in _without_page_extension(link_path).strip("/").split("/") if name not in (".", "..")]
    return len(names) > 1 and path.casefold().endswith("/" + "/".join(names).casefold())


def _choose_nearest(page: str, matches: list[str]) -> str | None:
    """Returns the only match, or the only one near the page: in its folder, or the twin in its language and version.

    Twins have the same path below the folder of a language or version."""
    if len(matches) == 1:
        return matches[0]
    folder = posixpath.dirname(page)
    in_folder = [path for path in matches if posixpath.dirname(path) == folder]
    if len(in_folder) == 1:
        return in_folder[0]
    shared = {path: len(posixpath.commonprefix([path.split("/")[:-1], page.split("/")[:-1]])) for path in matches}
    nearest = [path for path in matches if shared[path] == max(shared.values())]
    if len(nearest) != 1 or not all(_are_twins(nearest[0], other) for other in matches if other != nearest[0]):
        return None
    return nearest[0]


def _are_twins(path: str, other: str) -> bool:
    """Returns whether two paths differ only in the folders of a language, of a version, or of the current version."""
    return _strip_edition(path) == _strip_edition(other)


def _strip_edition(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if not EDITION_FOLDER_PATTERN.fullmatch(name))


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


def _rewrite_in_style(page: str, target: str, file: str, starts_as_folder: bool) -> str:
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
    return rewrite_target(target, page, LinkStyle(base, removed_extension, suffix, starts_as_folder), file)


def _without_page_extension(path: str) -> str:
    return strip_extension(path) if extension(path) in (*PAGE_EXTENSIONS, ".html") else path


def _file_kind(path: str) -> str:
    """Returns "" for a page, else the extension. Any page can replace a page, but a PNG only another PNG."""
    return "" if extension(path) in (*PAGE_EXTENSIONS, ".html", "") else extension(path)
