"""Which file a page of the site is, and which commit last touched that file. Nothing is checked out."""

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pygit2
from pygit2.enums import DeltaStatus, DiffOption, SortMode

from copydesk.core import clock
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.pages.site.repository_index import RepositoryIndex
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.patches import decode_text

MAX_COMMITS_WALKED = 20_000
MAX_WALK_CPU_SECONDS = 10.0
MAX_DELTAS_FOLLOWED = 5_000
"""A commit with more changed files is not searched for moved files."""
MAX_OLDER_COMMITS = 20
"""How many older commits in a row end a walk. A single one may be between newer ones, because clocks differ."""
MAX_SUBJECT_CHARS = 120
MAX_AUTHOR_CHARS = 80


class CommitSummary(NamedTuple):
    """A commit in words for people. The texts come from the repository: one line each, without control characters."""

    id: str
    at: int
    """When it was committed, in milliseconds."""
    author: str
    subject: str


class PageEdits(NamedTuple):
    path: str
    """The page's file."""
    touched: CommitSummary
    """The last commit that changed or moved the file."""
    edited: CommitSummary
    """The last commit that changed the content. A move alone is no edit."""


class PageHistories(NamedTuple):
    edits: dict[str, PageEdits]
    """By path. A page is missing if the walk ended before it found a commit."""
    is_complete: bool
    """False if the walk ended at its bound of commits or of time."""


def index_pages(tree: Tree, root: str = "") -> RepositoryIndex:
    """Returns the pages and sites of a commit, which know the addresses. Takes parsed files from the cache."""
    entries = dict(tree.files())
    files = {path: entry.oid for path, entry in entries.items()}
    return RepositoryIndex(tree, files, lambda path: tree.read(entries[path], path), root)


def find_page_edits(tree: Tree, address: str, root: str = "") -> PageEdits | None:
    """Returns the file and the last commits of the page that readers see at an address.

    None if no page has this address, or the commit is beyond the bounds of the walk.
    """
    path = index_pages(tree, root).resolver.find_page_at(address)
    return find_last_edits(tree, [path]).edits.get(path) if path is not None else None


def find_last_edits(
    tree: Tree,
    paths: Iterable[str],
    max_commits: int = MAX_COMMITS_WALKED,
    max_cpu_seconds: float = MAX_WALK_CPU_SECONDS,
) -> PageHistories:
    """Walks the history once, newest first, until the last edit of each file is found."""
    search = _EditSearch(tree.repository, paths)
    deadline = time.thread_time() + max_cpu_seconds
    walker = tree.repository.walk(pygit2.Oid(hex=tree.commit), SortMode.TIME)
    for count, commit in enumerate(walker):
        if not search.is_open or count >= max_commits or time.thread_time() > deadline:
            break
        tree.raise_if_stopped()
        search.visit(commit)
    return PageHistories(search.edits, not search.is_open)


class _EditSearch:
    """Finds the last commits of files. A file that a commit only moved is searched for under its earlier path."""

    def __init__(self, repository: pygit2.Repository, paths: Iterable[str]) -> None:
        self._repository = repository
        self._current_paths: dict[str, list[str]] = {path: [path] for path in paths}
        """The paths of today by the path in the commits that are visited now."""
        self._touched: dict[str, CommitSummary] = {}
        self.edits: dict[str, PageEdits] = {}

    @property
    def is_open(self) -> bool:
        return bool(self._current_paths)

    def visit(self, commit: pygit2.Commit) -> None:
        """Records which files the commit touched."""
        try:
            parents = commit.parents
        except KeyError:  # the clone has no older commits
            parents = []
        if not parents:
            for path in list(self._current_paths):
                if _find_blob(commit, path) is not None:
                    self._record_edit(path, commit)
            return
        diff = self._repository.diff(parents[0], commit, flags=DiffOption.SKIP_BINARY_CHECK)
        touched = {decode_text(delta.new_file.raw_path): delta for delta in diff.deltas}
        for path in touched.keys() & self._current_paths.keys():
            delta = touched[path]
            if any(_find_blob(parent, path) == _find_blob(commit, path) for parent in parents[1:]):
                continue  # a merge brought it in, so a commit of the merged branch made the change
            previous = _find_previous_path(diff, delta) if delta.status == DeltaStatus.ADDED else None
            if previous is None:
                self._record_edit(path, commit)
            else:
                self._record_move(path, previous, commit)

    def _record_edit(self, path: str, commit: pygit2.Commit) -> None:
        summary = summarize_commit(commit)
        for current in self._current_paths.pop(path):
            self.edits[current] = PageEdits(current, self._touched.get(current, summary), summary)

    def _record_move(self, path: str, previous: str, commit: pygit2.Commit) -> None:
        moved = self._current_paths.pop(path)
        for current in moved:
            self._touched.setdefault(current, summarize_commit(commit))
        self._current_paths.setdefault(previous, []).extend(moved)


def _find_previous_path(diff: pygit2.Diff, added: pygit2.DiffDelta) -> str | None:
    """Returns the path from which a commit moved a file, with the same content; None if it is new."""
    if len(diff) > MAX_DELTAS_FOLLOWED:
        return None
    for delta in diff.deltas:
        if delta.status == DeltaStatus.DELETED and delta.old_file.id == added.new_file.id:
            return decode_text(delta.old_file.raw_path)
    return None


def _find_blob(commit: pygit2.Commit, path: str) -> pygit2.Oid | None:
    try:
        return commit.tree[path].id
    except KeyError:
        return None


def summarize_commit(commit: pygit2.Commit) -> CommitSummary:
    subject = decode_text(commit.raw_message).strip().partition("\n")[0]
    author = decode_text(commit.author.raw_name)
    return CommitSummary(
        str(commit.id),
        read_commit_time(commit),
        to_safe_line(author, MAX_AUTHOR_CHARS),
        to_safe_line(subject, MAX_SUBJECT_CHARS),
    )


def read_commit_time(commit: pygit2.Commit) -> int:
    """Returns when a commit was made, in milliseconds. The repository says so: a time in the future counts as now."""
    return min(max(commit.commit_time, 0) * clock.SECOND, clock.now())


def to_safe_line(text: str, max_chars: int) -> str:
    """Returns text of a repository as one line without control characters, which could look like other lines."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return truncate(to_single_line(printable), max_chars)


def walk_main_line(tree: Tree, since: int) -> Iterator[pygit2.Commit]:
    """Yields the commits of the main line after a time in milliseconds, newest first. A merge counts as one commit."""
    walker = tree.repository.walk(pygit2.Oid(hex=tree.commit), SortMode.TOPOLOGICAL)
    walker.simplify_first_parent()
    older = 0
    for commit in walker:
        tree.raise_if_stopped()
        is_older = read_commit_time(commit) <= since
        older = older + 1 if is_older else 0
        if older > MAX_OLDER_COMMITS:
            return
        if not is_older:
            yield commit


def build_commit_link(forge: str, repository: str, commit: str) -> str | None:
    """Returns the address of a commit's page on a forge; None for plain git."""
    base = repository.removesuffix(".git")
    if not repository.startswith(("https://", "http://")):
        return None
    if forge in ("github", "gitea", "forgejo"):
        return f"{base}/commit/{commit}"
    return f"{base}/-/commit/{commit}" if forge == "gitlab" else None
