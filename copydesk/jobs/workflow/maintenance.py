"""Background maintenance: archives old jobs, deletes expired rows, detects merges, and packs and deletes mirrors."""

import logging
import time
from functools import cache
from pathlib import Path

from sqlalchemy import delete, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Projects
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.core.settings import Settings
from copydesk.jobs.job import COMPLETED, FAILED, RepositoryFailed
from copydesk.jobs.projects.context_mirrors import MIRROR_PREFIX, ContextAccess
from copydesk.jobs.projects.context_repositories import ContextRepositories
from copydesk.jobs.publish.forges.local import LocalPulls
from copydesk.jobs.publish.forges.polling import log_polling_failure
from copydesk.jobs.publish.forges.webhooks.receiver import delete_old_comments
from copydesk.jobs.publish.git.mirror import Mirror, delete_mirror, pack_mirror
from copydesk.jobs.storage.idempotency_keys import IDEMPOTENCY_KEY_TTL_MS
from copydesk.jobs.storage.records import archive_job, get_job_for_update
from copydesk.jobs.storage.tables import idempotency, jobs
from copydesk.jobs.workspace.repository_limits import RepositoryLimits

MAX_JOBS_PER_ROUND = 100
UNUSED_MIRROR_SECONDS = 24 * 3600.0
log = logging.getLogger(__name__)


def detect_merges(
    database: Database,
    settings: Settings,
    pulls: LocalPulls,
    secrets: SealedSecrets,
    *,
    only_on_this_machine: bool = False,
) -> None:
    """Marks local pull requests as merged if the base branch contains their head.

    A person may merge with git and never use the dashboard. `only_on_this_machine` leaves out repositories that must be
    reached over the network."""
    for project_id, open_pulls in pulls.list_idle_by_project().items():
        try:
            project = Projects(database).get(project_id)
            if only_on_this_machine and project.repository.startswith(("http://", "https://")):
                continue
            token = secrets.get(project_id, "forge_token")
            limits = RepositoryLimits.from_settings(settings)
            mirror = Mirror.for_project(settings.mirrors_folder, project, token, limits=limits)
            fetch_head = cache(mirror.fetch_head)  # most pull requests of a project have the same base
            for pull in open_pulls:
                if mirror.has_commit(pull.head) and mirror.contains(fetch_head(pull.base), pull.head):
                    pulls.mark_merged(pull)
        except Exception as failure:  # an error in one mirror must not stop the others
            if not only_on_this_machine:  # the less frequent round over all repositories reports it
                log_polling_failure(project_id, failure)


def delete_orphaned_mirrors(database: Database, settings: Settings) -> None:
    """Deletes the mirrors of projects that no longer exist. Another process may have deleted the project."""
    # Before the query, so that a new project is never missed. A lock file stays if a deletion is killed.
    ids = {path.stem for path in settings.mirrors_folder.glob("proj_*") if path.suffix in (".git", ".lock")}
    for project_id in ids - {project.id for project in Projects(database).all()} if ids else ():
        delete_mirror(settings.mirrors_folder / f"{project_id}.git")


def delete_unused_context_mirrors(
    database: Database, settings: Settings, secrets: SealedSecrets, *, unused_seconds: float = UNUSED_MIRROR_SECONDS
) -> None:
    """Deletes the mirrors of context repositories that no project reads anymore, unless a run used them lately."""
    folders = list(settings.mirrors_folder.glob(f"{MIRROR_PREFIX}*.git"))
    if not folders:
        return
    contexts = ContextRepositories(database, secrets)
    used: set[Path] = set()
    for project in Projects(database).all():
        if project_contexts := contexts.list(project.id):
            values = secrets.all(project.id)
            accesses = [ContextAccess.build(project, values, context) for context in project_contexts]
            used.update(access.mirror_folder(settings.mirrors_folder) for access in accesses)
    for folder in folders:
        if folder not in used and folder.stat().st_mtime < time.time() - unused_seconds:
            delete_mirror(folder)


def pack_mirrors(settings: Settings) -> None:
    for folder in settings.mirrors_folder.glob("*.git"):
        try:
            pack_mirror(folder, RepositoryLimits.from_settings(settings))
        except RepositoryFailed as failure:  # an error in one mirror must not stop the others
            log.warning("could not pack mirror %s: %s", folder.name, failure)


def archive_and_expire(database: Database, settings: Settings) -> None:
    now = clock.now()
    archive_before = now - int(settings.archive_days * clock.DAY)
    finished_jobs = (
        select(jobs.c.id)
        .where(jobs.c.status.in_((COMPLETED, FAILED)), jobs.c.updated_at < archive_before)
        .limit(MAX_JOBS_PER_ROUND)
    )
    with database.read() as tx:
        due_job_ids = tx.execute(finished_jobs).scalars().all()
        expired_key = tx.execute(
            select(idempotency.c.key).where(idempotency.c.created_at < now - IDEMPOTENCY_KEY_TTL_MS).limit(1)
        ).first()
    for job_id in due_job_ids:
        with database.write() as tx:
            job = get_job_for_update(tx, job_id)
            if job is not None and job.status in (COMPLETED, FAILED):
                archive_job(database, tx, job)
    delete_old_comments(database)
    if expired_key:
        with database.write() as tx:
            tx.execute(delete(idempotency).where(idempotency.c.created_at < now - IDEMPOTENCY_KEY_TTL_MS))
