"""Breaks one reference of a repository at a time, and counts how many of them the checks notice."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pygit2

from copydesk.jobs.checks import CheckReport, check
from copydesk.jobs.checks.rules.links import judge_reference
from copydesk.jobs.pages.lines import apply_edits
from copydesk.jobs.pages.page_types import IMAGE_EXTENSIONS, extension, is_page
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.references import LINK_KINDS, Reference, names_file_or_anchor, remove_overlaps
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.paths import split_target
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

KINDS = ("page", "anchor", "image", "include")
BROKEN_NAME = "zz-no-such-name"


@dataclass
class KindRecall:
    """How many of the broken references of one kind were reported, or said not to be judged."""

    broken: int = 0
    reported: int = 0
    not_judged: int = 0
    missed: list[str] = field(default_factory=list)


def measure_recall(repository: Path, root: str, count: int, seed: int = 1) -> dict[str, KindRecall]:
    """Breaks up to `count` references of each kind, chosen at random, one at a time."""
    git = pygit2.Repository(str(repository))
    tree = Tree(git, str(git.head.target))
    workspace = Workspace(tree)
    references: dict[str, list[tuple[str, Reference]]] = {kind: [] for kind in KINDS}
    resolver = index_workspace(workspace).resolver
    for path, body in _read_pages(workspace, root):
        for reference in remove_overlaps(find_references(path, body)):
            if path in resolver.pages and reference.is_sure and _is_valid(resolver, path, reference):
                references[_find_kind(reference)].append((path, reference))
    results = {}
    for kind, candidates in references.items():
        chosen = random.Random(seed).sample(candidates, min(count, len(candidates)))
        results[kind] = KindRecall()
        for path, reference in chosen:
            _break_reference(tree, root, path, reference, results[kind])
    return results


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


def _break_reference(tree: Tree, root: str, path: str, reference: Reference, recall: KindRecall) -> None:
    workspace = Workspace(tree)
    text = DecodedText.decode(workspace.read(path))
    target = _break_target(reference)
    body = apply_edits(text.body, [(reference.start, reference.end, target)])
    workspace.apply({path: text.encode(body)})
    report = check(workspace, root=root)
    recall.broken += 1
    if _is_reported(report, path):
        recall.reported += 1
    elif _is_not_judged(report, path):
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


def _is_reported(report: CheckReport, path: str) -> bool:
    return any(each.path == path and BROKEN_NAME in each.message for each in report.introduced)


def _is_not_judged(report: CheckReport, path: str) -> bool:
    return any(each.path == path and BROKEN_NAME in each.message for each in report.not_judged)
