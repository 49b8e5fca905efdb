"""Asks the authors of the commits that started a run to review its pull request."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pydantic import BaseModel

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import JobFailed, RepositoryFailed
from copydesk.jobs.projects.context_mirrors import ContextAccess, is_same_host
from copydesk.jobs.publish.errors import RepositoryUnavailable
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.registry import open_forge
from copydesk.jobs.storage.message_origins import MessageOrigin

MAX_AUTHORS_ASKED = 5
NO_COMMITS_NOTE = "No commits started this run, so there are no authors to ask."
NO_AUTHOR_NOTE = "The forge knows no author of these commits who could review."

FindContext = Callable[[str], ContextAccess | None]


class ReviewRequests(BaseModel):
    """Who was asked to review, and why others were not."""

    requested: list[str] = []
    notes: list[str] = []


@dataclass(frozen=True)
class AuthorReviews:
    project: Project
    forge: Forge
    find_context: FindContext
    """Returns the project's context repository of this name, also if the agent does not read it."""
    deadline: float

    def request(self, number: int, origins: Sequence[MessageOrigin]) -> ReviewRequests:
        """Asks the authors, at most MAX_AUTHORS_ASKED of them. Asking a person twice changes nothing.

        Raises RepositoryUnavailable if a forge does not respond; otherwise, notes say what did not work.
        """
        commits = _merge_commits(origins)
        if not commits:
            return ReviewRequests(notes=[NO_COMMITS_NOTE])
        result = ReviewRequests()
        authors = [name for repository in commits for name in self._find_authors(repository, commits, result)]
        ours = self.forge.get_pull(number).author.casefold()
        authors = [name for name in dict.fromkeys(authors) if name.casefold() != ours]
        if not authors and not result.notes:
            result.notes.append(NO_AUTHOR_NOTE)
        for name in authors[:MAX_AUTHORS_ASKED]:
            problems = self._request_one(number, name)
            result.notes.extend(problems)
            if not problems:
                result.requested.append(name)
        if len(authors) > MAX_AUTHORS_ASKED:
            result.notes.append(f"Only the newest {MAX_AUTHORS_ASKED} of {len(authors)} authors were asked.")
        return result

    def _find_authors(self, repository: str, commits: dict[str, list[str]], result: ReviewRequests) -> list[str]:
        try:
            with self._open_source(repository) as source:
                return source.find_authors(commits[repository])
        except RepositoryUnavailable:
            raise
        except JobFailed as failure:
            place = f"in {repository}" if repository else "in this repository"
            result.notes.append(f"The authors of the commits {place} could not be found. {failure}")
            return []

    def _request_one(self, number: int, name: str) -> list[str]:
        """Requests one review. Returns why it could not be requested, as for a person without access."""
        try:
            return self.forge.request_reviewers(number, [name])
        except RepositoryUnavailable:
            raise
        except JobFailed as failure:
            return [f"{name} could not be added as a reviewer: {failure}"]

    @contextmanager
    def _open_source(self, repository: str) -> Iterator[Forge]:
        """Yields the forge of a repository, if its accounts are those of the pull request's forge."""
        if not repository:
            yield self.forge
            return
        access = self.find_context(repository)
        if access is None:
            raise RepositoryFailed("The context repository was removed.")
        if not is_same_host(self.project.repository, access.source.repository):
            raise RepositoryFailed("It is not on the same forge as the pull request.")
        # A context repository may be read as plain git, and its own token hides the address of the API.
        policy = access.source.policy.model_copy(update={"api_url": self.project.policy.api_url})
        source = replace(access.source, forge=self.project.forge, policy=policy)
        with open_forge(source, access.secrets, self.deadline, read_only=True) as forge:
            yield forge


def _merge_commits(origins: Sequence[MessageOrigin]) -> dict[str, list[str]]:
    """Returns the commits by repository, the newest first."""
    commits: dict[str, list[str]] = {}
    for origin in reversed(origins):
        for repository, ids in origin.commits.items():
            commits.setdefault(repository, []).extend(ids)
    return commits
