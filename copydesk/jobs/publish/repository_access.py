"""Checks that a project's repository can be read and pushed to, and accepts pull requests."""

import os
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from copydesk.core.projects.projects import Project
from copydesk.jobs.agent.models.model_names import API_KEY_VARIABLES as MODEL_KEYS
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.errors import RepositoryRedirected
from copydesk.jobs.publish.forges.forge import Forge, PlannedCommit
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, create_forge, load_credentials, open_forge
from copydesk.jobs.publish.git.commit_signature import load_commit_signer
from copydesk.jobs.publish.git.mirror import Mirror, TokenSource, create_git

ACCESS_TIMEOUT_SECONDS = 120.0
MAX_BRANCHES_NAMED = 6


def open_forge_if_remote(
    project: Project, secrets: Mapping[str, str], deadline: float = inf
) -> AbstractContextManager[Forge | None]:
    """Returns a context with the project's forge, or with None for a local repository."""
    return open_forge(project, secrets, deadline) if project.forge in REMOTE_FORGES else nullcontext()


def create_token_source(project: Project, secrets: Mapping[str, str]) -> TokenSource:
    """Returns the token that reads the repository; for a GitHub App, a function that mints one when git needs it.

    A token that is minted here is not revoked. It can only read, and expires within an hour.
    """
    if project.forge != "github" or project.policy.app_id is None or "app_key" not in secrets or project.token_env:
        return load_credentials(project, secrets).token

    @cache
    def mint_token() -> str | None:
        return create_forge(project, load_credentials(project, secrets), read_only=True).git_token()

    return mint_token


def find_usable_branch(
    project: Project, secrets: Mapping[str, str], ref: str | None, seconds: float = ACCESS_TIMEOUT_SECONDS
) -> str:
    """Returns the branch that jobs would start from. Raises RepositoryFailed with all access problems.

    `seconds` is the approximate timeout for the repository and the forge.
    """
    with open_forge_if_remote(project, secrets, time.monotonic() + seconds) as forge:
        git = create_git(project, forge.git_token if forge else secrets.get("forge_token"))
        branch = choose_branch(git.list_heads("HEAD", "refs/heads/*", seconds=seconds), ref)
        planned = plan_commit(project, secrets)
        problems = forge.find_access_problems(f"{project.policy.branch_prefix}job", planned) if forge else []
    if problems:
        raise RepositoryFailed(" ".join(problems))
    return branch


def find_usable_repository(
    project: Project, secrets: Mapping[str, str], ref: str | None, seconds: float = ACCESS_TIMEOUT_SECONDS
) -> Project:
    """Returns the project with the branch that jobs would start from, and with the URL that the host itself uses.

    GitLab redirects `…/name` to `…/name.git`. Git follows no redirects, so the URL with `.git` is tried in its place.
    """
    if project.forge == "gitlab" and not project.repository.endswith(".git"):
        project = replace(project, repository=f"{project.repository}.git")
    try:
        return replace(project, ref=find_usable_branch(project, secrets, ref, seconds))
    except RepositoryRedirected:
        if project.repository.endswith(".git"):
            raise
        project = replace(project, repository=f"{project.repository}.git")
        return replace(project, ref=find_usable_branch(project, secrets, ref, seconds))


def plan_commit(project: Project, secrets: Mapping[str, str]) -> PlannedCommit:
    """Returns what is known about the commits of the project's jobs. Raises RepositoryFailed for a bad signing key."""
    policy = project.policy
    is_signed = load_commit_signer(secrets) is not None
    return PlannedCommit(policy.author_email, project.root, is_signed, policy.sign_off)


def has_folder(
    project: Project, secrets: Mapping[str, str], folder: str, seconds: float = ACCESS_TIMEOUT_SECONDS
) -> bool:
    """Returns whether the newest commit of the project's branch has this folder. Raises RepositoryFailed."""
    with (
        TemporaryDirectory(prefix="copydesk-folders-") as temporary_folder,
        open_forge_if_remote(project, secrets, time.monotonic() + seconds) as forge,
    ):
        git = create_git(project, forge.git_token if forge else secrets.get("forge_token"))
        return Mirror(Path(temporary_folder, "folders.git"), git).has_folder(project.ref, folder, seconds)


def has_branch(
    project: Project, secrets: Mapping[str, str], branch: str, seconds: float = ACCESS_TIMEOUT_SECONDS
) -> bool:
    """Returns whether the repository has this branch. Raises RepositoryFailed if the repository cannot be read."""
    with open_forge_if_remote(project, secrets, time.monotonic() + seconds) as forge:
        git = create_git(project, forge.git_token if forge else secrets.get("forge_token"))
        return branch in git.list_heads(f"refs/heads/{branch}", seconds=seconds)


def choose_branch(heads: Mapping[str, str], ref: str | None) -> str:
    """Returns the branch to use: `ref`, or the default branch. Raises RepositoryFailed if it does not exist."""
    branch = ref or heads.get("HEAD")
    branches = heads.keys() - {"HEAD"}
    if branch is None:
        raise RepositoryFailed("The repository has no default branch. Push a first commit, or specify the branch.")
    if branch not in branches:
        raise RepositoryFailed(f"The repository has no branch {branch}; {_describe_branches(branches)}.")
    return branch


def _describe_branches(branches: Collection[str]) -> str:
    """Returns a clause that lists the branches, short names first, because these are the likely ones."""
    if not branches:
        return "it has no branches yet, so push a first commit"
    shortest = sorted(branches, key=lambda name: (len(name), name))[:MAX_BRANCHES_NAMED]
    unnamed_count = len(branches) - len(shortest)
    *others, last = [*shortest, f"{unnamed_count} more"] if unnamed_count else shortest
    return f"it has {', '.join(others)}{' and ' if others else ''}{last}"


def list_known_secrets(project: Project, secrets: Mapping[str, str]) -> list[str]:
    """Returns values that must never be published: the project's secrets, and tokens and keys in the environment."""
    variables = [project.token_env, *MODEL_KEYS.values()]
    return [*secrets.values(), *(os.environ[name] for name in variables if name and os.environ.get(name))]
