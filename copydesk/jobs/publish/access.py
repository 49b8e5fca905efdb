"""Whether a project's repository can be used: read, pushed to, and proposed to."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf

from copydesk.core.projects import Project
from copydesk.jobs.agent.models import KEYS as MODEL_KEYS
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.remote import REMOTE, credentials_of, forge_for
from copydesk.jobs.publish.repository import default_branch, git_for


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


def usable_branch(project: Project, secrets: Mapping[str, str], ref: str | None) -> str:
    """The branch that jobs would start from; RepositoryFailed says all that stands in the way."""
    with forge_of_project(project, secrets) as forge:
        git = git_for(project, forge.git_token if forge else secrets.get("forge_token"))
        branch = ref or default_branch(git)
        if branch not in git.heads(f"refs/heads/{branch}"):
            raise RepositoryFailed(f"The repository has no branch {branch}.")
        missing = forge.access(f"{project.policy.branch_prefix}job") if forge else []
    if missing:
        raise RepositoryFailed(" ".join(missing))
    return branch


def known_secrets(project: Project, secrets: Mapping[str, str]) -> list[str]:
    """Values that must never be published: the project's own, and what the service's environment holds for it."""
    variables = [project.token_env, *MODEL_KEYS.values()]
    return [*secrets.values(), *(os.environ[name] for name in variables if name and os.environ.get(name))]
