"""Reads context repositories: finds their credentials, fetches them into shared mirrors, and pins a commit."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from copydesk.core.projects.projects import Project
from copydesk.jobs.execution.stoppable import Stoppable
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, load_credentials, open_forge
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror, TokenSource, create_git
from copydesk.jobs.publish.repository_access import ACCESS_TIMEOUT_SECONDS, choose_branch, create_token_source
from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.repository_limits import RepositoryLimits

MIRROR_PREFIX = "context-"
OWN_CREDENTIAL_PREFIX = "context_token_"
TOKEN_SECRETS = ("forge_token", "app_key")


@dataclass(frozen=True)
class ContextRepository:
    """A repository that the agent may read and never change."""

    project_id: str
    name: str
    repository: str
    ref: str
    forge: str
    """Where it is hosted, which decides the form of permalinks; `local` for plain git."""
    has_token: bool
    """Whether it has a token of its own. Otherwise the project's is used if both are on the same host."""
    allow_private: bool
    """Whether its host may have a private network address."""
    created_at: int


class RemoteHead(NamedTuple):
    branch: str
    commit: str


@dataclass(frozen=True)
class ContextAccess:
    """A context repository with the credentials that read it."""

    context: ContextRepository
    source: Project
    """The project, with the address of the context repository in place of its own."""
    secrets: Mapping[str, str] = field(repr=False)

    @classmethod
    def build(cls, project: Project, secrets: Mapping[str, str], context: ContextRepository) -> "ContextAccess":
        """Chooses the credentials: the repository's own token, or the project's if both are on the same host."""
        source = replace(
            project,
            repository=context.repository,
            ref=context.ref,
            root="",
            forge=context.forge,
            allow_private=context.allow_private,
        )
        if context.has_token:
            token = secrets.get(OWN_CREDENTIAL_PREFIX + context.name, "")
            own_policy = project.policy.model_copy(update={"app_id": None, "api_url": None})
            return cls(context, replace(source, token_env=None, policy=own_policy), {"forge_token": token})
        if is_same_host(project.repository, context.repository):
            return cls(context, source, {name: secrets[name] for name in TOKEN_SECRETS if name in secrets})
        return cls(context, replace(source, token_env=None), {})

    def mirror_folder(self, mirrors: Path) -> Path:
        """Returns the mirror's folder. Projects that read the same address with the same credentials share it."""
        credentials = [self.source.token_env or "", self.source.policy.app_id or "", *sorted(self.secrets.values())]
        identity = "\0".join([self.source.repository, self.source.forge, *credentials])
        return mirrors / f"{MIRROR_PREFIX}{sha256(identity.encode()).hexdigest()[:40]}.git"

    @contextmanager
    def open_token(self, deadline: float) -> Iterator[TokenSource]:
        """Yields the token for git; None if there are no credentials, as for a public repository."""
        source = self.source
        uses_app = source.forge == "github" and source.policy.app_id is not None and "app_key" in self.secrets
        if source.forge in REMOTE_FORGES and uses_app and source.token_env is None:
            with open_forge(source, self.secrets, deadline, read_only=True) as forge:
                yield forge.git_token
        else:
            yield load_credentials(source, self.secrets).token

    def open_git(self, limits: RepositoryLimits) -> Git:
        """Returns git for this repository, for use outside of a job."""
        return create_git(self.source, create_token_source(self.source, self.secrets), limits=limits)

    def open_mirror(self, mirrors: Path, limits: RepositoryLimits) -> Mirror:
        """Returns the mirror for a look at its history outside of a job."""
        folder = self.mirror_folder(mirrors)
        mirror = Mirror(folder, self.open_git(limits))
        os.utime(folder)  # unused mirrors are deleted by this time
        return mirror

    def find_head(self, ref: str | None, seconds: float = ACCESS_TIMEOUT_SECONDS) -> RemoteHead:
        """Asks the repository for the newest commit of a branch, or of its default branch, without fetching."""
        with self.open_token(time.monotonic() + seconds) as token:
            patterns = ("HEAD", "refs/heads/*") if ref is None else (f"refs/heads/{ref}",)
            heads = create_git(self.source, token).list_heads(*patterns, seconds=seconds)
        branch = choose_branch(heads, ref)
        return RemoteHead(branch, heads[branch])

    def pin(self, mirrors: Path, stoppable: Stoppable, limits: RepositoryLimits, deadline: float) -> str:
        """Fetches the branch and returns its newest commit."""
        with self._open_mirror(mirrors, stoppable, limits, deadline) as mirror:
            os.utime(mirror.folder)  # unused mirrors are deleted by this time
            return mirror.fetch_head(self.context.ref)

    def open_tree(
        self, commit: str, mirrors: Path, stoppable: Stoppable, limits: RepositoryLimits, deadline: float
    ) -> ContextTree:
        """Returns the files of a pinned commit. Fetches the branch again if this machine does not have the commit."""
        with self._open_mirror(mirrors, stoppable, limits, deadline) as mirror:
            mirror.ensure_commit(commit, self.context.ref)
            return ContextTree(self.context.name, mirror.tree(commit))

    @contextmanager
    def _open_mirror(
        self, mirrors: Path, stoppable: Stoppable, limits: RepositoryLimits, deadline: float
    ) -> Iterator[Mirror]:
        """Yields the mirror. Errors name the context repository."""
        try:
            with self.open_token(deadline) as token:
                yield Mirror(self.mirror_folder(mirrors), create_git(self.source, token, stoppable, limits))
        except RepositoryFailed as failure:
            failure.args = (f"The context repository {self.context.name} cannot be read. {failure}",)
            raise


def is_same_host(address: str, other: str) -> bool:
    """Returns whether both addresses are URLs of the same server, so that one may get the other's token."""
    first, second = urlsplit(address), urlsplit(other)
    is_remote = first.scheme in ("http", "https")
    return is_remote and (first.scheme, first.netloc.casefold()) == (second.scheme, second.netloc.casefold())
