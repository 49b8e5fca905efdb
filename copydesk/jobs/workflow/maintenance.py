"""What happens by itself: old jobs are archived, spent keys forgotten, merges noticed, mirrors packed."""

import logging

from sqlalchemy import delete, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Projects
from copydesk.core.projects.sealed_secrets import Secrets
from copydesk.core.settings import Settings
from copydesk.jobs.job import COMPLETED, FAILED, RepositoryFailed
from copydesk.jobs.publish.forges.local import Pulls
from copydesk.jobs.publish.forges.polling import log_unnoticed
from copydesk.jobs.publish.forges.webhooks.receiver import forget_old_comments
from copydesk.jobs.publish.git.mirror import Mirror, pack
from copydesk.jobs.service import KEPT_FOR, archive
from copydesk.jobs.storage.records import locked
from copydesk.jobs.storage.tables import idempotency, jobs
from copydesk.jobs.workspace.repository_limits import RepositoryLimits

AT_ONCE = 100
log = logging.getLogger(__name__)


def notice_merges(database: Database, settings: Settings, pulls: Pulls, secrets: Secrets) -> None:
    """A pull request that a person merged with git alone is merged all the same."""
    for project_id, waiting in pulls.waiting().items():
        try:
            token = secrets.get(project_id, "forge_token")
            limits = RepositoryLimits.of(settings)
            mirror = Mirror.of(settings.mirrors, Projects(database).get(project_id), token, limits=limits)
            for pull in waiting:
                if mirror.has(pull.head) and mirror.contains(mirror.head(pull.base), pull.head):
                    pulls.notice_merged(pull)
        except Exception as failure:  # whatever is wrong with one mirror, the others go on
            log_unnoticed(project_id, failure)


def pack_mirrors(settings: Settings) -> None:
    for folder in settings.mirrors.glob("*.git"):
        try:
            pack(folder, RepositoryLimits.of(settings))
        except RepositoryFailed as failure:  # whatever is wrong with one mirror, the others go on
            log.warning("the mirror %s could not be packed: %s", folder.name, failure)


def tidy(database: Database, settings: Settings) -> None:
    now = clock.now()
    old = now - int(settings.archive_days * clock.DAY)
    finished = select(jobs.c.id).where(jobs.c.status.in_((COMPLETED, FAILED)), jobs.c.updated_at < old).limit(AT_ONCE)
    with database.read() as tx:
        due = tx.execute(finished).scalars().all()
        spent = tx.execute(select(idempotency.c.key).where(idempotency.c.created_at < now - KEPT_FOR).limit(1)).first()
    for job_id in due:
        with database.write() as tx:
            job = locked(database, tx, job_id)
            if job is not None and job.status in (COMPLETED, FAILED):
                archive(database, tx, job)
    forget_old_comments(database)
    if spent:
        with database.write() as tx:
            tx.execute(delete(idempotency).where(idempotency.c.created_at < now - KEPT_FOR))
