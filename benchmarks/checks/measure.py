"""Measures checks of one repository: the first, after a change, of the next commit, and without a cache."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pygit2

from benchmarks.checks.repository import PAGES_PER_SECTION
from copydesk.jobs.checks import CheckReport, check
from copydesk.jobs.checks.checker import clear_caches
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.workspace import Workspace

CHANGED_PAGES = 5


@dataclass(frozen=True)
class CheckMeasurement:
    pages: int
    first: float
    """CPU seconds of the first check in this process."""
    again: float
    """CPU seconds for a change to five pages after that, the median of five different changes."""
    next_commit: float
    """CPU seconds of the first check of the commit with such a change."""
    plain: float
    """CPU seconds for the same change without a cache."""
    memory: float
    """Peak resident megabytes; an empty process takes about 40."""
    introduced: int


def measure_checks(repository: Path, pages: int) -> CheckMeasurement:
    tree = Tree(git := pygit2.Repository(str(repository)), str(git.revparse_single("main").id))
    first = _measure_cpu(lambda: check(Workspace(tree)))
    again = sorted(_measure_cpu(partial(_check_edited, tree, pages, turn)) for turn in range(5))[2]
    following = _measure_cpu(lambda: check(Workspace(_commit_edits(tree, pages))))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    introduced = len(_check_edited(tree, pages, 0).introduced)
    clear_caches()
    plain = _measure_cpu(partial(_check_edited, tree, pages, 0))
    return CheckMeasurement(pages, first, again, following, plain, memory, introduced)


def _check_edited(tree: Tree, pages: int, turn: int) -> CheckReport:
    return check(_make_edits(tree, pages, turn))


def _make_edits(tree: Tree, pages: int, turn: int) -> Workspace:
    """Edits a heading that others link to, deletes one page, and adds links to three pages; one link is broken."""
    workspace = Workspace(tree)
    section = f"docs/section-{turn * 3 % max(1, pages // PAGES_PER_SECTION):03}"
    heading, deleted, *linking = [f"{section}/page-{number:03}.md" for number in range(40, 40 + CHANGED_PAGES)]
    workspace.write(heading, workspace.read(heading).replace(b"## Part 1", b"## Chapter 1"))
    workspace.delete(deleted)
    for number, path in enumerate(linking):
        target = b"missing.md" if not number else b"page-001.md"
        workspace.write(path, workspace.read(path) + b"\n[more](%b)\n" % target)
    return workspace


def _commit_edits(tree: Tree, pages: int) -> Tree:
    author = pygit2.Signature("Ada", "ada@example.org", 1, 0)
    tree_id = write_changed_tree(tree, _make_edits(tree, pages, 7).changes())
    commit = tree.repository.create_commit(None, author, author, "Change", tree_id, [tree.commit])
    return Tree(tree.repository, str(commit))


def _measure_cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began
