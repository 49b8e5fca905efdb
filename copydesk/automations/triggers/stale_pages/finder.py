"""Finds popular pages whose sources changed: fetches the repositories and compares the pages with them."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from sqlalchemy import select

from copydesk.automations.reader_signals import PopularPage
from copydesk.automations.triggers.looks import ListRepositories, WatchedRepository, list_remote_refs
from copydesk.core.db.database import Database
from copydesk.core.errors import UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.projects.staleness.comparison import CitedSource, Comparison, PageQuestion
from copydesk.jobs.publish.errors import RepositoryUnavailable
from copydesk.jobs.storage.tables import jobs
from copydesk.jobs.workflow.isolation.page_lookups import ComparisonRequest, RepositoryCopy

MAX_JOBS_SEARCHED = 200
"""How many jobs of the project, the newest first, are searched for evidence."""


class ComparePages(Protocol):
    def __call__(self, request: ComparisonRequest) -> Comparison: ...


class StalePageFinder:
    """Compares popular pages with the sources that they speak about. Waits for git, so call it in a worker."""

    def __init__(self, database: Database, list_repositories: ListRepositories, compare: ComparePages) -> None:
        self.database = database
        self.list_repositories = list_repositories
        self.compare = compare

    def find(
        self,
        project: Project,
        pages: Sequence[PopularPage],
        told: Mapping[str, int],
        context_names: Collection[str] | None,
    ) -> Comparison:
        """Compares the pages at the newest commits of all repositories. Raises RepositoryFailed if one is unreadable.

        `told` says when an earlier run was told of a page: changes before that do not count again. `context_names`
        selects context repositories; None stands for all.
        """
        return self.compare(self.build_request(project, pages, told, context_names))

    def build_request(
        self,
        project: Project,
        pages: Sequence[PopularPage],
        told: Mapping[str, int] = MappingProxyType({}),
        context_names: Collection[str] | None = None,
    ) -> ComparisonRequest:
        """Fetches the newest commits, and returns all that the comparison depends on."""
        own, *contexts = sorted(self.list_repositories(project), key=lambda each: bool(each.name))
        selected = [each for each in contexts if context_names is None or each.name in context_names]
        return ComparisonRequest(
            docs=_fetch(own),
            root=project.root,
            pages=tuple(PageQuestion(page.path, told.get(page.path, 0)) for page in pages),
            contexts=tuple(_fetch(context) for context in selected),
            citations=tuple(self._list_citations(project.id)),
        )

    def _list_citations(self, project_id: str) -> list[CitedSource]:
        """Returns the verified evidence of the project's newest jobs."""
        query = (
            select(jobs.c.evidence)
            .where(jobs.c.project_id == project_id, jobs.c.evidence.is_not(None))
            .order_by(jobs.c.id.desc())
            .limit(MAX_JOBS_SEARCHED)
        )
        with self.database.read() as tx:
            stored = [each for evidence in tx.execute(query).scalars() for each in evidence or ()]
        citations = [
            CitedSource(
                each["path"],
                each["source"]["repository"],
                each["source"]["commit"],
                each["source"]["path"],
                each["source"]["lines"],
            )
            for each in stored
            if each["verified"]
        ]
        return list(dict.fromkeys(citations))


def _fetch(repository: WatchedRepository) -> RepositoryCopy:
    """Fetches the newest commit of the branch, if the mirror does not have it yet."""
    refs = list_remote_refs(repository)
    if isinstance(refs, UserFacingError):
        may_recover = isinstance(refs, RepositoryUnavailable)
        raise (RepositoryUnavailable if may_recover else RepositoryFailed)(_name_repository(repository, refs))
    head = refs.get(f"refs/heads/{repository.branch}")
    if head is None:
        raise RepositoryFailed(f"{repository.name or 'The repository'} has no branch {repository.branch}.")
    mirror = repository.open_mirror()
    mirror.ensure_commit(head, repository.branch)
    return RepositoryCopy(str(mirror.folder), head, repository.name, repository.address)


def _name_repository(repository: WatchedRepository, failure: UserFacingError) -> str:
    if not repository.name:
        return str(failure)
    return f"The context repository {repository.name} cannot be read. {failure}"
