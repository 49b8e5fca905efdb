"""Breaks one reference of a repository at a time, and counts how many of them the checks notice."""

import posixpath
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pygit2

from copydesk.jobs.checks import Finding, Unjudged, check
from copydesk.jobs.checks.rules.links import judge_reference
from copydesk.jobs.pages.lines import apply_edits
from copydesk.jobs.pages.page_types import IMAGE_EXTENSIONS, INDEX_NAMES, extension, is_page, stem, strip_extension
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.references import LINK_KINDS, Reference, names_file_or_anchor, remove_overlaps
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.paths import split_target
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

KINDS = ("page", "anchor", "image", "include", "folder", "root")
"""What is wrong with a reference: the name of its page, anchor, image or included file, the folder it starts from, or
that it starts at the top of the repository."""
BROKEN_NAME = "zz-no-such-name"
KINDS_FROM_FOLDER = (
    *LINK_KINDS,
    "doc",
    "toctree",
    "image",
    "figure",
    "include",
    "literalinclude",
    "mdbook",
    "vitepress",
    "script",
)


@dataclass
class KindRecall:
    """How many of the broken references of one kind were reported, or said not to be judged."""

    broken: int = 0
    reported: int = 0
    not_judged: int = 0
    missed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Breakage:
    """A reference of a page, and the target that replaces its target."""

    path: str
    reference: Reference
    target: str


def measure_recall(repository: Path, root: str, count: int, seed: int = 1) -> dict[str, KindRecall]:
    """Breaks up to `count` references of each kind, chosen at random, one at a time."""
    git = pygit2.Repository(str(repository))
    tree = Tree(git, str(git.head.target))
    results = {}
    for kind, candidates in list_breakages(tree, root).items():
        chosen = random.Random(seed).sample(candidates, min(count, len(candidates)))
        results[kind] = KindRecall()
        for breakage in chosen:
            _break_reference(tree, root, breakage, results[kind])
    return results


def list_breakages(tree: Tree, root: str) -> dict[str, list[Breakage]]:
    """Returns the ways in which one reference of a repository can be broken, by kind."""
    workspace = Workspace(tree)
    breakages: dict[str, list[Breakage]] = {kind: [] for kind in KINDS}
    resolver = index_workspace(workspace).resolver
    for path, body in _read_pages(workspace, root):
        for reference in remove_overlaps(find_references(path, body)):
            if path in resolver.pages and reference.is_sure and _is_valid(resolver, path, reference):
                breakages[_find_kind(reference)].append(Breakage(path, reference, _break_target(reference)))
                for kind, target in _move_target(resolver, path, reference):
                    breakages[kind].append(Breakage(path, reference, target))
    return breakages


def _move_target(resolver: LinkResolver, page: str, reference: Reference) -> Iterator[tuple[str, str]]:
    """Yields targets that start from a wrong folder: with one `../` more, with one less, and from the repository."""
    path, suffix = split_target(reference.target)
    site = resolver.site_by_page.get(page)
    if reference.kind not in KINDS_FROM_FOLDER or not path.strip("./") or path.startswith(("/", "@")) or site is None:
        return
    for target in (f"../{path}", path.removeprefix("../")):
        if target != path and not _leads_anywhere(resolver, page, reference, target):
            yield "folder", target + suffix
    file = find_referenced_file(resolver, page, reference.kind, reference.target)
    if file is not None and site.roots[0] and site.kind != "docusaurus" and reference.kind in LINK_KINDS:
        yield "root", f"/{file}{suffix}"


def _leads_anywhere(resolver: LinkResolver, page: str, reference: Reference, path: str) -> bool:
    """Returns whether there is a file where a relative path leads, without the search of the resolver."""
    starts_as_folder = resolver.starts_as_folder(page, path, is_html=reference.kind == "html")
    is_folder = starts_as_folder and stem(page) not in INDEX_NAMES
    place = posixpath.normpath(posixpath.join(strip_extension(page) if is_folder else posixpath.dirname(page), path))
    site = resolver.site_by_page.get(page)
    roots = [*site.roots, site.folder] if site is not None and not path.startswith("..") else []
    places = [place, *(posixpath.normpath(posixpath.join(root, path)) for root in roots)]
    return any(resolver.find_at(each) is not None for each in places if not each.startswith(".."))


def _read_pages(workspace: Workspace, root: str) -> Iterator[tuple[str, str]]:
    prefix = f"{root}/" if root else ""
    for path in workspace.paths():
        if path.startswith(prefix) and is_page(path) and extension(path) in (".md", ".mdx", ".rst", ".markdown"):
            data = workspace.read(path)
            if is_text(data):
                yield path, DecodedText.decode(data).body


def _is_valid(resolver: LinkResolver, path: str, reference: Reference) -> bool:
    """Returns whether a reference leads to a file, an anchor or a label of the repository."""
    if reference.kind == "ref":
        return judge_reference(resolver, path, reference.kind, reference.target) is None
    if not names_file_or_anchor(reference.target):
        return False
    is_own_anchor = reference.target.startswith("#")
    file = path if is_own_anchor else find_referenced_file(resolver, path, reference.kind, reference.target)
    return file is not None and judge_reference(resolver, path, reference.kind, reference.target) is None


def _find_kind(reference: Reference) -> str:
    path, suffix = split_target(reference.target)
    if reference.kind in ("image", "figure") or extension(path) in IMAGE_EXTENSIONS:
        return "image"
    if reference.kind == "ref" or "#" in suffix:
        return "anchor"
    return "page" if reference.kind in (*LINK_KINDS, "doc", "toctree") else "include"


def _break_reference(tree: Tree, root: str, breakage: Breakage, recall: KindRecall) -> None:
    path, reference, target = breakage.path, breakage.reference, breakage.target
    workspace = Workspace(tree)
    text = DecodedText.decode(workspace.read(path))
    body = apply_edits(text.body, [(reference.start, reference.end, target)])
    workspace.apply({path: text.encode(body)})
    report = check(workspace, root=root)
    recall.broken += 1
    if _is_named(report.introduced, path, target):
        recall.reported += 1
    elif _is_named(report.not_judged, path, target):
        recall.not_judged += 1
    else:
        recall.missed.append(f"{path}:{text.body.count(chr(10), 0, reference.start) + 1} {reference.kind} {target}")


def _break_target(reference: Reference) -> str:
    """Returns the target with another name: of the anchor if there is one, else of the file."""
    target = reference.target
    if "#" in target and _find_kind(reference) == "anchor":
        return f"{target.partition('#')[0]}#{BROKEN_NAME}"
    path, suffix = split_target(target)
    if reference.kind == "ref":
        return BROKEN_NAME
    slash = "/" if path.endswith("/") else ""
    folder, _, name = path.rstrip("/").rpartition("/")
    lead = f"{folder}/" if folder or path.startswith("/") else ""
    return f"{lead}{BROKEN_NAME}{extension(name)}{slash}{suffix}"


def _is_named(entries: Iterable[Finding | Unjudged], path: str, target: str) -> bool:
    return any(each.path == path and f"`{target}`" in each.message for each in entries)
