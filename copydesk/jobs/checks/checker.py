"""Checks a workspace and tells what its change brought about from what was there before."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import pygit2

from copydesk.jobs.checks.content_cache import forget as forget_facts
from copydesk.jobs.checks.findings import Finding, Report, is_ignored, ordered, told_apart
from copydesk.jobs.checks.snapshot import Scope, State
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace


def check(
    workspace: Workspace,
    *,
    root: str = "",
    required_fields: Sequence[str] = (),
    ignored: Sequence[str] = (),
    origin: Tree | None = None,
) -> Report:
    """What is wrong now, and which of it came with the change since `origin`, by default the workspace's own tree.

    Only pages below `root` are looked at; they may link to any file of the repository."""
    scope = Scope(root.strip("/"), tuple(required_fields))
    before = state_of(scope, origin or workspace.tree)
    after = after_state(before, workspace)
    report = told_apart(before.findings, after.findings, frozenset(before.files.keys() - after.files.keys()))
    introduced = ordered((*report.introduced, *_gone(before, after)))
    return Report(
        tuple(each for each in introduced if not is_ignored(each, ignored)),
        tuple(each for each in report.old if not is_ignored(each, ignored)),
    )


def after_state(before: State, workspace: Workspace) -> State:
    """The workspace with its edits, read from the state before them."""
    is_same_tree = before.tree.root == workspace.tree.root
    files = dict(before.files) if is_same_tree else {path: entry.oid for path, entry in workspace.tree.files()}
    for path, data in workspace.changes().items():
        if data is None:
            files.pop(path, None)
        else:
            files[path] = pygit2.hash(data)
    changed = workspace.changes().keys() if is_same_tree else None
    return State(before.scope, workspace.tree, files, workspace.read, before, changed)


def _gone(before: State, after: State) -> Iterator[Finding]:
    """What was found before the change and is not found now is wrong, however much in doubt it would be alone."""
    for page in after.judged_again:
        judged, known = after.judged[page], before.judged.get(page)
        if known is None or not judged.doubtful or judged is known:
            continue
        named = {target for _, _, target in before.pages[page].references}
        for target, finding in judged.doubtful.items():
            if target in named and target not in known.doubtful:
                yield finding


class _States:
    """The states of the trees that were checked lately. The next commit of a repository is read from the last one."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._known: dict[tuple[str, Scope, pygit2.Oid], State] = {}

    def of(self, scope: Scope, tree: Tree) -> State:
        key = (tree.repository.path, scope, tree.root)
        with self._lock:
            known = self._known.pop(key, None)
            near = next((each for other, each in reversed(self._known.items()) if other[:2] == key[:2]), None)
        state = known or _read(scope, tree, near)
        with self._lock:
            self._known[key] = state
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return state

    def forget(self) -> None:
        with self._lock:
            self._known.clear()


def _read(scope: Scope, tree: Tree, near: State | None) -> State:
    entries = dict(tree.files())
    files = {path: entry.oid for path, entry in entries.items()}
    with _without_collecting():
        return State(scope, tree, files, lambda path: tree.read(entries[path], path), near)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Facts have no cycles; to look for some in a growing heap again and again takes a third of a first check."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_states = _States(most=3)
state_of = _states.of


def forget() -> None:
    """As if nothing had ever been read; for measuring."""
    _states.forget()
    forget_facts()
