"""One repository, checked for the first time, after a change, as the next commit, and with nothing kept."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pygit2

from benchmarks.checks.repository import PER_SECTION
from copydesk.jobs.checks import CheckReport, check
from copydesk.jobs.checks.checker import clear_caches
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.workspace import Workspace

CHANGED = 5


@dataclass(frozen=True)
class Measured:
    pages: int
    first: float
    """CPU seconds of the first check of this process."""
    again: float
    """Of a change to five pages after that, the median of five different ones."""
    next_commit: float
    """Of the first check of the commit that such a change becomes."""
    plain: float
    """Of the same change with nothing kept: what every check would cost."""
    memory: float
    """The most resident megabytes, of which an empty process takes some 40."""
    introduced: int


def measure(repository: Path, pages: int) -> Measured:
    tree = Tree(git := pygit2.Repository(str(repository)), str(git.revparse_single("main").id))
    first = _cpu(lambda: check(Workspace(tree)))
    again = sorted(_cpu(partial(_checked, tree, pages, turn)) for turn in range(5))[2]
    following = _cpu(lambda: check(Workspace(_committed(tree, pages))))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    introduced = len(_checked(tree, pages, 0).introduced)
    clear_caches()
    plain = _cpu(partial(_checked, tree, pages, 0))
    return Measured(pages, first, again, following, plain, memory, introduced)


def _checked(tree: Tree, pages: int, turn: int) -> CheckReport:
    return check(_edited(tree, pages, turn))


def _edited(tree: Tree, pages: int, turn: int) -> Workspace:
    """One heading that others link to, one page deleted, and three pages with new links, of which one is broken."""
    workspace = Workspace(tree)
    section = f"docs/section-{turn * 3 % max(1, pages // PER_SECTION):03}"
    heading, deleted, *linking = [f"{section}/page-{number:03}.md" for number in range(40, 40 + CHANGED)]
    workspace.write(heading, workspace.read(heading).replace(b"## Part 1", b"## Chapter 1"))
    workspace.delete(deleted)
    for number, path in enumerate(linking):
        target = b"missing.md" if not number else b"page-001.md"
        workspace.write(path, workspace.read(path) + b"\n[more](%b)\n" % target)
    return workspace


def _committed(tree: Tree, pages: int) -> Tree:
    author = pygit2.Signature("Ada", "ada@example.org", 1, 0)
    made = write_changed_tree(tree, _edited(tree, pages, 7).changes())
    commit = tree.repository.create_commit(None, author, author, "Change", made, [tree.commit])
    return Tree(tree.repository, str(commit))


def _cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began
