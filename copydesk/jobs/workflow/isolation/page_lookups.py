"""Looks up the files and histories of pages in a child process, because repositories are untrusted text."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from copydesk.core.projects.projects import Project
from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.core.settings import Settings
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.projects.page_history import CommitSummary, PageEdits, build_commit_link, find_page_edits
from copydesk.jobs.projects.staleness.comparison import (
    CitedSource,
    Comparison,
    PageQuestion,
    SourceTree,
    compare_pages,
)
from copydesk.jobs.publish.git.mirror import find_fetched_head
from copydesk.jobs.workflow.isolation.child_limits import ChildLimits, LimitExceeded
from copydesk.jobs.workflow.isolation.child_pool import ChildPool
from copydesk.jobs.workspace.git_repository import open_repository
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import RepositoryLimits

T = TypeVar("T")

MAX_CACHED_PAGES = 2_000
MAX_CACHED_COMPARISONS = 20


class PageCommit(NamedTuple):
    """The last commit that touched a page."""

    path: str
    """The page's file in the repository."""
    commit: CommitSummary
    url: str | None
    """The commit's page on the forge; None for plain git."""


class RepositoryCopy(NamedTuple):
    """The data needed to open a repository in another process."""

    folder: str
    commit: str
    name: str = ""
    address: str = ""

    def open(self, limits: RepositoryLimits) -> SourceTree:
        return SourceTree(self.name, self.address, Tree(open_repository(self.folder), self.commit, limits))


class ComparisonRequest(NamedTuple):
    docs: RepositoryCopy
    root: str
    pages: tuple[PageQuestion, ...]
    contexts: tuple[RepositoryCopy, ...]
    citations: tuple[CitedSource, ...]


class PageLookups:
    """Answers questions about pages. Caches answers by commit, so that they never go stale."""

    def __init__(self, settings: Settings) -> None:
        self._mirrors = settings.mirrors_folder
        self._limits = RepositoryLimits.from_settings(settings)
        limits = ChildLimits.from_settings(settings)
        self._children = ChildPool(limits, max_idle=1)
        self._edits = BoundedCache[tuple[str, str, str, str], PageEdits | None](MAX_CACHED_PAGES)
        self._comparisons = BoundedCache[ComparisonRequest, Comparison](MAX_CACHED_COMPARISONS)

    def find_page_commit(self, project: Project, address: str) -> PageCommit | None:
        """Returns the last commit that touched the page at an address, as readers see it.

        Reads what was last fetched, without the network. None if nothing was fetched on this machine, no page has the
        address, or its commit is too far back. Raises RepositoryFailed if the repository is too much to read.
        """
        folder = self._mirrors / f"{project.id}.git"
        commit = find_fetched_head(folder, project.ref)
        if commit is None:
            return None
        key = (str(folder), commit, project.root, address)
        edits = self._edits.get(key)
        if edits is None and self._edits.get(key, MISSING) is MISSING:
            edits = self._edits.store(key, self._run(_find_page_edits, *key, self._limits, affinity=folder))
        if edits is None:
            return None
        return PageCommit(
            edits.path, edits.touched, build_commit_link(project.forge, project.repository, edits.touched.id)
        )

    def compare(self, request: ComparisonRequest) -> Comparison:
        """Compares pages with their sources. Raises RepositoryFailed if that takes too much time or memory."""
        answer = self._comparisons.get(request)
        if answer is None:
            answer = self._run(_compare_pages, request, self._limits, affinity=Path(request.docs.folder))
            self._comparisons.store(request, answer)
        return answer

    def close(self) -> None:
        self._children.close()

    def _run(self, function: Callable[..., T], *arguments: object, affinity: Path) -> T:
        try:
            return self._children.run(function, *arguments, affinity=str(affinity))
        except LimitExceeded as limit:
            raise RepositoryFailed(f"Reading the pages and their history took {limit}.") from None


MISSING = PageEdits("", CommitSummary("", 0, "", ""), CommitSummary("", 0, "", ""))
"""Stands for an answer that is not cached."""


def _find_page_edits(folder: str, commit: str, root: str, address: str, limits: RepositoryLimits) -> PageEdits | None:
    return find_page_edits(RepositoryCopy(folder, commit).open(limits).tree, address, root)


def _compare_pages(request: ComparisonRequest, limits: RepositoryLimits) -> Comparison:
    contexts = [context.open(limits) for context in request.contexts]
    docs = request.docs.open(limits)
    return compare_pages(docs.tree, request.root, request.pages, contexts, request.citations, docs.address)
