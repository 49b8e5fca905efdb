"""Context repositories: repositories that a project's agent may read besides its own, such as the product's code."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import Conflict, InvalidRequest, NotFound
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project, validate_forge, validate_ref, validate_repository
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.projects.context_mirrors import (
    OWN_CREDENTIAL_PREFIX,
    ContextAccess,
    ContextRepository,
    is_same_host,
)
from copydesk.jobs.publish.forges.registry import detect_forge
from copydesk.jobs.publish.repository_access import ACCESS_TIMEOUT_SECONDS
from copydesk.jobs.storage.tables import context_repositories

MAX_CONTEXT_REPOSITORIES = 10
REMOTE_TIMEOUT_SECONDS = 20.0
"""How long a request of the API waits for a repository."""
NAME_PATTERN = r"^[a-z0-9](?:[a-z0-9._-]{0,38}[a-z0-9])?$"


class ContextNotFound(NotFound):
    code = "context_not_found"
    message = "This project has no context repository of this name."


class ContextExists(Conflict):
    code = "context_exists"
    message = "This project already has a context repository of this name."


class TooManyContexts(Conflict):
    code = "too_many_contexts"
    message = f"A project can have up to {MAX_CONTEXT_REPOSITORIES} context repositories. Remove one first."


class ContextInUse(Conflict):
    code = "context_in_use"
    message = "An automation watches this context repository."


class NewContext(NamedTuple):
    name: str
    repository: str
    ref: str | None = None
    """None means the default branch."""
    forge: str | None = None
    """None means that it is detected from the URL."""
    token: str | None = None


FindUsers = Callable[[Connection, str, str], Sequence[str]]
"""Returns the names of the automations of a project that watch the context repository of this name."""


class ContextRepositories:
    def __init__(
        self, database: Database, secrets: SealedSecrets, find_users: FindUsers = lambda tx, project_id, name: ()
    ) -> None:
        self.database = database
        self.secrets = secrets
        self.find_users = find_users

    def list(self, project_id: str) -> Sequence[ContextRepository]:
        """Returns the project's context repositories, by name."""
        query = select(context_repositories).where(context_repositories.c.project_id == project_id)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(context_repositories.c.name)).all()
        return [ContextRepository(**row._mapping) for row in rows]

    def add(self, project: Project, new: NewContext, *, actor: str, only_remote: bool = False) -> ContextRepository:
        """Adds a context repository after its branch was looked up. Raises InvalidRequest if it cannot be read.

        `only_remote` refuses paths of this machine, and hosts in private networks except the one of the project's
        repository. Use it for callers that do not administer this machine.
        """
        validated = validate_context(project, new, only_remote=only_remote)
        seconds = REMOTE_TIMEOUT_SECONDS if only_remote else ACCESS_TIMEOUT_SECONDS
        context = self._find_branch(project, validated, new, seconds)
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            # Locks the project, so that two requests cannot exceed the limit together.
            tx.execute(select(projects.c.id).where(projects.c.id == project.id).with_for_update())
            names = tx.execute(
                select(context_repositories.c.name).where(context_repositories.c.project_id == project.id)
            ).scalars()
            existing_names = set(names)
            if context.name in existing_names:
                raise ContextExists(
                    f"This project already has a context repository named {context.name}. Remove it first, or choose "
                    "another name."
                )
            if len(existing_names) >= MAX_CONTEXT_REPOSITORIES:
                raise TooManyContexts
            tx.execute(insert(context_repositories).values(vars(context)))
            if new.token:
                self.secrets.store_in(tx, project.id, token_secret_name(context.name), new.token)
            details = {"repository": context.repository}
            audit_log.record(tx, project.id, actor, "context.added", context.name, **details)
        return context

    def remove(self, project_id: str, name: str, *, actor: str) -> None:
        """Removes a context repository and its token. Jobs that run now keep the commit that they pinned.

        Raises ContextInUse if the trigger of an automation names it, since that would never fire again.
        """
        with self.database.write() as tx:
            if not tx.execute(delete(context_repositories).where(_has_name(project_id, name))).rowcount:
                raise ContextNotFound(f"This project has no context repository named {name[:60]}.")
            if users := self.find_users(tx, project_id, name):
                raise ContextInUse(_describe_users(name, users))
            self.secrets.delete_in(tx, project_id, token_secret_name(name))
            audit_log.record(tx, project_id, actor, "context.removed", name)

    def _find_branch(
        self, project: Project, context: ContextRepository, new: NewContext, seconds: float
    ) -> ContextRepository:
        secret_values = dict(self.secrets.all(project.id))
        if new.token:
            secret_values[token_secret_name(context.name)] = new.token
        access = ContextAccess.build(project, secret_values, context)
        try:
            return replace(context, ref=access.find_head(new.ref, seconds).branch)
        except RepositoryFailed as failure:
            raise InvalidRequest(f"The context repository {context.name} cannot be read. {failure}") from None


def _describe_users(name: str, automations: Sequence[str]) -> str:
    if len(automations) == 1:
        return (
            f"The automation “{automations[0]}” watches {name}. Change its trigger or delete it, then remove the "
            "repository."
        )
    listed = ", ".join(f"“{each}”" for each in automations)
    return f"The automations {listed} watch {name}. Change their triggers or delete them, then remove the repository."


def token_secret_name(name: str) -> str:
    """Returns the name under which a context repository's token is sealed among the project's secrets."""
    return OWN_CREDENTIAL_PREFIX + name


def validate_context(project: Project, new: NewContext, *, only_remote: bool = False) -> ContextRepository:
    """Returns the context repository, not stored yet. Raises InvalidRequest for an invalid name, address or branch."""
    if not re.fullmatch(NAME_PATTERN, new.name):
        raise InvalidRequest(
            "The name of a context repository must have 1 to 40 lowercase letters, digits, dots, hyphens or "
            "underscores, and begin and end with a letter or digit."
        )
    repository = validate_repository(new.repository)
    if only_remote and not repository.startswith(("https://", "http://")):
        raise InvalidRequest("Use the https:// URL of the repository. Only an administrator can add a local path.")
    return ContextRepository(
        project_id=project.id,
        name=new.name,
        repository=repository,
        ref=validate_ref(new.ref or "main"),
        forge=validate_forge(new.forge or detect_forge(repository), repository),
        has_token=bool(new.token),
        allow_private=project.allow_private and (not only_remote or is_same_host(project.repository, repository)),
        created_at=clock.now(),
    )


def _has_name(project_id: str, name: str) -> ColumnElement[bool]:
    return (context_repositories.c.project_id == project_id) & (context_repositories.c.name == name)
