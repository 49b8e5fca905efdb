"""Whether a project's repository can be used: read, pushed to, and proposed to."""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from math import inf

from copydesk.core.projects.projects import Project
from copydesk.jobs.agent.models.model_names import KEYS as MODEL_KEYS
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.registry import REMOTE, credentials_of, forge_for
from copydesk.jobs.publish.git.mirror import git_for

PATIENCE = 120.0
MOST_NAMED = 6


@contextmanager
def forge_of_project(project: Project, secrets: Mapping[str, str], deadline: float = inf) -> Iterator[Forge | None]:
    """None for the local one. Whatever was minted for it is given back at the end."""
    if project.forge not in REMOTE:
        yield None
        return
    forge = forge_for(project, credentials_of(project, secrets), deadline)
    try:
        yield forge
    finally:
        forge.end()


def usable_branch(project: Project, secrets: Mapping[str, str], ref: str | None, seconds: float = PATIENCE) -> str:
    """The branch that jobs would start from; RepositoryFailed says all that stands in the way.

    Neither the repository nor the forge is waited for much longer than these seconds.
    """
    with forge_of_project(project, secrets, time.monotonic() + seconds) as forge:
        git = git_for(project, forge.git_token if forge else secrets.get("forge_token"))
        branch = _branch(git.heads("HEAD", "refs/heads/*", seconds=seconds), ref)
        missing = forge.access(f"{project.policy.branch_prefix}job") if forge else []
    if missing:
        raise RepositoryFailed(" ".join(missing))
    return branch


def _branch(heads: Mapping[str, str], ref: str | None) -> str:
    branch, branches = ref or heads.get("HEAD"), heads.keys() - {"HEAD"}
    if branch is None:
        raise RepositoryFailed("The repository has no default branch yet; push a first commit, or name the branch.")
    if branch not in branches:
        raise RepositoryFailed(f"The repository has no branch {branch}; {_listed(branches)}.")
    return branch


def _listed(branches: Collection[str]) -> str:
    """The likely ones first: they are the short ones."""
    if not branches:
        return "it has none yet: push a first commit"
    likely = sorted(branches, key=lambda name: (len(name), name))[:MOST_NAMED]
    more = len(branches) - len(likely)
    *others, last = [*likely, f"{more} more"] if more else likely
    return f"it has {', '.join(others)}{' and ' if others else ''}{last}"


def known_secrets(project: Project, secrets: Mapping[str, str]) -> list[str]:
    """Values that must never be published: the project's own, and what the service's environment holds for it."""
    variables = [project.token_env, *MODEL_KEYS.values()]
    return [*secrets.values(), *(os.environ[name] for name in variables if name and os.environ.get(name))]
