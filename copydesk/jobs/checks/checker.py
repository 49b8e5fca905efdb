"""Checks a workspace and separates the problems that its change introduced from those that existed before."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import pygit2

from copydesk.jobs.checks.comparison import compare_snapshots, list_all_unjudged
from copydesk.jobs.checks.findings import CheckReport, Finding, Unjudged, is_ignored, sort_findings
from copydesk.jobs.checks.judged_items import count_judged
from copydesk.jobs.checks.names.unknown_names import UNKNOWN_NAME_RULE, NameReport, find_unknown_names
from copydesk.jobs.checks.snapshot import CheckScope, Snapshot
from copydesk.jobs.pages.site.content_cache import clear as clear_content_cache
from copydesk.jobs.pages.site.repository_index import RepositoryIndex, apply_changes
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace

T = TypeVar("T", Finding, Unjudged)


def check(
    workspace: Workspace,
    *,
    root: str = "",
    required_fields: Sequence[str] = (),
    ignored: Sequence[str] = (),
    origin: Tree | None = None,
    request: str = "",
) -> CheckReport:
    """Returns the problems of the workspace, split by whether the change since `origin` introduced them.

    `origin` defaults to the workspace's own tree. Only pages below `root` are checked; they may link to any file of the
    repository. `request` is what was asked for; the names in it are known.
    """
    scope = CheckScope(root.strip("/"), tuple(required_fields))
    before = get_snapshot(scope, origin or workspace.tree)
    after = build_edited_snapshot(before, workspace)
    report = compare_snapshots(before, after)
    is_unchanged = before.index.files == after.index.files
    not_judged = list_all_unjudged(after) if is_unchanged else report.not_judged
    names = NameReport()
    if UNKNOWN_NAME_RULE not in ignored:
        contexts = list(workspace.contexts.values())
        names = find_unknown_names(before.name_search, before.index, after.index, workspace.read, request, contexts)
    judged = count_judged(before, after, report, ignored)
    judged[UNKNOWN_NAME_RULE] = sum(
        not is_ignored(Finding(UNKNOWN_NAME_RULE, name.path, name.line, ""), ignored) for name in names.judged
    )
    return CheckReport(
        _without_ignored(sort_findings([*report.introduced, *names.findings]), ignored),
        _without_ignored(report.old, ignored),
        _without_ignored((*not_judged, *names.unjudged), ignored),
        _without_ignored(report.fixed, ignored),
        _without_ignored(sort_findings(names.please_check), ignored),
        judged,
    )


def _without_ignored(found: Sequence[T], ignored: Sequence[str]) -> tuple[T, ...]:
    return tuple(each for each in found if not is_ignored(each, ignored))


def build_edited_snapshot(before: Snapshot, workspace: Workspace) -> Snapshot:
    """Returns the snapshot of the workspace with its edits, built from the snapshot before them."""
    tree = workspace.tree
    index = before.index
    is_same_tree = index.tree.root == tree.root
    files = apply_changes(index.files if is_same_tree else {path: entry.oid for path, entry in tree.files()}, workspace)
    changed = workspace.changes().keys() if is_same_tree else None
    edited_index = RepositoryIndex(tree, files, workspace.read, before.scope.root, index, changed)
    return Snapshot(before.scope, edited_index, before)


class _SnapshotCache:
    """Caches the snapshots of recently checked trees. A repository's next snapshot is built from its latest one."""

    def __init__(self, max_size: int) -> None:
        self._max_size, self._lock = max_size, Lock()
        self._snapshots: dict[tuple[str, CheckScope, pygit2.Oid], Snapshot] = {}

    def get(self, scope: CheckScope, tree: Tree) -> Snapshot:
        key = (tree.repository.path, scope, tree.root)
        with self._lock:
            cached = self._snapshots.pop(key, None)
            similar = next((each for other, each in reversed(self._snapshots.items()) if other[:2] == key[:2]), None)
        snapshot = cached or _build_snapshot(scope, tree, similar)
        with self._lock:
            self._snapshots[key] = snapshot
            while len(self._snapshots) > self._max_size:
                del self._snapshots[next(iter(self._snapshots))]
        return snapshot

    def clear(self) -> None:
        with self._lock:
            self._snapshots.clear()


def _build_snapshot(scope: CheckScope, tree: Tree, previous: Snapshot | None) -> Snapshot:
    entries = dict(tree.files())
    files = {path: entry.oid for path, entry in entries.items()}
    with _without_garbage_collection():
        previous_index = previous.index if previous else None
        index = RepositoryIndex(tree, files, lambda path: tree.read(entries[path], path), scope.root, previous_index)
        return Snapshot(scope, index, previous)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turns off garbage collection while a snapshot is built.

    Page facts have no reference cycles, and repeated collections of a growing heap slow down the first check.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_snapshots = _SnapshotCache(max_size=3)
get_snapshot = _snapshots.get


def clear_caches() -> None:
    """Empties all caches, for benchmarks."""
    _snapshots.clear()
    clear_content_cache()
