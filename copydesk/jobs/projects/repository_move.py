"""Moves a project to another address of its repository, after a check that it is the same repository."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, func, select

from copydesk.core import audit_log
from copydesk.core.db.database import Database
from copydesk.core.db.tables import secrets as sealed_secrets
from copydesk.core.errors import Conflict
from copydesk.core.projects.projects import Project, Projects, validate_repository
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.jobs.job import ACTIVE, JobFailed, RepositoryFailed
from copydesk.jobs.publish.forges.registry import detect_forge
from copydesk.jobs.publish.git.mirror import Mirror, create_git
from copydesk.jobs.publish.repository_access import find_usable_repository, open_forge_if_remote
from copydesk.jobs.storage.tables import jobs

HOST_SECRETS = ("forge_token", "app_key", "webhook_secret")
"""The secrets that belong to the repository's host. They are never sent to another host."""
MAX_KNOWN_COMMITS = 500
OLD_ADDRESS_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class NewAddress:
    repository: str
    forge: str | None = None
    """None means that the forge is detected from the URL, or else stays the same."""
    token: str | None = field(default=None, repr=False)


def move_repository(
    projects: Projects, secrets: SealedSecrets, project: Project, new: NewAddress, *, actor: str
) -> Project:
    """Changes the project's repository. Raises RepositoryFailed if it cannot be used or has another history.

    On another host, the stored token and the token variable are dropped: they belong to the old host.
    """
    address = validate_repository(new.repository)
    keeps_host = _host(address) == _host(project.repository)
    moved = replace(
        project,
        repository=address,
        forge=new.forge or _choose_forge(project, address),
        token_env=project.token_env if keeps_host else None,
    )
    old_secrets = secrets.all(project.id)
    new_secrets = dict(old_secrets) if keeps_host else {}
    if new.token is not None:
        new_secrets["forge_token"] = new.token
    moved = find_usable_repository(moved, new_secrets, moved.ref)
    _require_same_history(projects.database, project, old_secrets, moved, new_secrets)

    def prepare_move(tx: Connection) -> None:
        _refuse_active_jobs(tx, project.id)
        if not keeps_host:
            _delete_host_secrets(tx, project.id, actor)

    projects.move(moved, actor=actor, before_write=prepare_move)
    if new.token is not None:
        secrets.set(project.id, "forge_token", new.token, actor=actor)
    return moved


def _host(address: str) -> tuple[str, str]:
    """Returns the scheme and host of a URL; a path and a file:// URL are both on this machine."""
    if not address.startswith(("http://", "https://")):
        return "file", ""
    parts = urlsplit(address)
    return parts.scheme, parts.netloc.lower()


def _choose_forge(project: Project, address: str) -> str:
    if not address.startswith(("http://", "https://")):
        return "local"
    detected = detect_forge(address)
    return detected if detected != "local" else project.forge


def _require_same_history(
    database: Database,
    project: Project,
    old_secrets: Mapping[str, str],
    moved: Project,
    new_secrets: Mapping[str, str],
) -> None:
    """Raises RepositoryFailed unless the new repository has a commit that the project knows.

    A project that knows no commit, because it has no jobs and its old address does not respond, can move anywhere.
    """
    known_commits = _list_known_commits(database, project, old_secrets)
    if not known_commits:
        return
    with (
        TemporaryDirectory(prefix="copydesk-move-") as temporary_folder,
        open_forge_if_remote(moved, new_secrets) as forge,
    ):
        git = create_git(moved, forge.git_token if forge else new_secrets.get("forge_token"))
        mirror = Mirror(Path(temporary_folder, "new.git"), git)
        mirror.fetch_head(moved.ref)
        if any(mirror.has_commit(commit) for commit in known_commits):
            return
    raise RepositoryFailed(
        f"The branch {moved.ref} of {moved.repository} has another history: it contains no commit that this project "
        "knows. Check the URL, or create a new project for this repository."
    )


def _list_known_commits(database: Database, project: Project, secrets: Mapping[str, str]) -> Collection[str]:
    """Returns the commits that jobs started from, and the head of the branch if the old address still responds."""
    query = select(jobs.c.base).where(jobs.c.project_id == project.id, jobs.c.base.is_not(None))
    with database.read() as tx:
        commits = set(tx.execute(query.order_by(jobs.c.id.desc()).limit(MAX_KNOWN_COMMITS)).scalars())
    with suppress(JobFailed), open_forge_if_remote(project, secrets) as forge:
        git = create_git(project, forge.git_token if forge else secrets.get("forge_token"))
        heads = git.list_heads(f"refs/heads/{project.ref}", seconds=OLD_ADDRESS_TIMEOUT_SECONDS)
        commits |= {commit for branch, commit in heads.items() if branch == project.ref}
    return commits


def _delete_host_secrets(tx: Connection, project_id: str, actor: str) -> None:
    """Deletes the secrets of the old host, in the transaction that stores the new one."""
    for name in HOST_SECRETS:
        same_secret = (sealed_secrets.c.project_id == project_id) & (sealed_secrets.c.name == name)
        if tx.execute(delete(sealed_secrets).where(same_secret)).rowcount:
            audit_log.record(tx, project_id, actor, "secret.removed", name)


def _refuse_active_jobs(tx: Connection, project_id: str) -> None:
    query = select(func.count()).select_from(jobs).where(jobs.c.project_id == project_id, jobs.c.status == ACTIVE)
    count = tx.execute(query).scalar_one()
    if count:
        raise Conflict(f"{count} job{' is' if count == 1 else 's are'} running. Wait, or cancel them first.")
