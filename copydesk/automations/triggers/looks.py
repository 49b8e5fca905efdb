"""The repositories that automations watch, and what they are asked: `git ls-remote` for the branch and the tags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from copydesk.automations.automation import Automation
from copydesk.automations.definition import ApiTrigger, ContentUpdateTrigger, ReleaseTrigger, ScheduleTrigger
from copydesk.core.errors import StoreUnavailable, UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror

LOOK_TIMEOUT_SECONDS = 30.0
Refs = dict[str, str]


@dataclass(frozen=True)
class WatchedRepository:
    """A repository that automations can watch. `name` is empty for the project's own."""

    name: str
    address: str
    branch: str
    open_git: Callable[[], Git]
    open_mirror: Callable[[], Mirror]
    forge: str = "local"
    """Where it is hosted, which decides the form of links; `local` for plain git."""


ListRepositories = Callable[[Project], Sequence[WatchedRepository]]
"""Returns the project's own repository and its context repositories."""


class OwnHead(NamedTuple):
    repository: WatchedRepository
    commit: str


FindOwnHead = Callable[[str], OwnHead]
"""Returns the newest commit of the project's own branch. Raises UserFacingError if it cannot be read."""


class Looks:
    """The answers that one look has got: each project's repositories and each repository's refs are asked for once."""

    def __init__(self, list_repositories: Callable[[str], tuple[Project, Sequence[WatchedRepository]]]) -> None:
        self.list_repositories = cache(list_repositories)
        self._refs: dict[tuple[str, str], Refs | UserFacingError] = {}

    def list_refs(self, project_id: str, repository: WatchedRepository) -> Refs | UserFacingError:
        key = (project_id, repository.name)
        if key not in self._refs:
            self._refs[key] = list_remote_refs(repository)
        return self._refs[key]

    def find_own_head(self, project_id: str) -> OwnHead:
        """Returns the newest commit of the project's own branch. Raises UserFacingError if it cannot be read."""
        _, listed = self.list_repositories(project_id)
        [own] = [repository for repository in listed if not repository.name]
        refs = self.list_refs(project_id, own)
        if isinstance(refs, UserFacingError):
            raise refs
        commit = refs.get(f"refs/heads/{own.branch}")
        if commit is None:
            raise RepositoryFailed(f"The repository has no branch {own.branch}.")
        return OwnHead(own, commit)


def list_remote_refs(repository: WatchedRepository, seconds: float = LOOK_TIMEOUT_SECONDS) -> Refs | UserFacingError:
    """Returns the branch and the tags of a repository, or why it cannot be read."""
    try:
        patterns = (f"refs/heads/{repository.branch}", "refs/tags/*")
        return repository.open_git().list_refs(*patterns, seconds=seconds)
    except StoreUnavailable:
        raise
    except UserFacingError as failure:
        return failure


def is_watched(automation: Automation, name: str) -> bool:
    """Returns whether the automation watches the context repository of this name; empty for the project's own."""
    trigger = automation.definition.trigger
    if isinstance(trigger, ScheduleTrigger | ApiTrigger):
        return False
    if isinstance(trigger, ContentUpdateTrigger):
        return not name
    return bool(name) and (not trigger.repositories or name in trigger.repositories)


def select_refs(automation: Automation, repository: WatchedRepository, refs: Refs) -> Refs:
    """Returns the refs that the automation watches: tags for releases, or else the branch."""
    trigger = automation.definition.trigger
    if isinstance(trigger, ReleaseTrigger):
        tags = {name.removeprefix("refs/tags/"): c for name, c in refs.items() if name.startswith("refs/tags/")}
        return {tag: commit for tag, commit in tags.items() if trigger.tags is None or fnmatchcase(tag, trigger.tags)}
    head = refs.get(f"refs/heads/{repository.branch}")
    if head is None:
        raise RepositoryFailed(f"{repository.name or 'The repository'} has no branch {repository.branch}.")
    return {repository.branch: head}
