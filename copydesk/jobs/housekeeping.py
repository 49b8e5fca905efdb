"""What happens by itself, about once a minute: old jobs are archived, spent keys forgotten."""

from sqlalchemy import delete, select

from copydesk.core import clock
from copydesk.core.database import Database
from copydesk.core.settings import Settings
from copydesk.jobs.job import COMPLETED, FAILED
from copydesk.jobs.records import locked
from copydesk.jobs.service import KEPT_FOR, archive
from copydesk.jobs.tables import idempotency, jobs

AT_ONCE = 100


def tidy(database: Database, settings: Settings) -> None:
    now = clock.now()
    old = now - int(settings.archive_days * clock.DAY)
    finished = select(jobs.c.id).where(jobs.c.status.in_((COMPLETED, FAILED)), jobs.c.finished_at < old).limit(AT_ONCE)
    with database.read() as tx:
        due = tx.execute(finished).scalars().all()
        spent = tx.execute(select(idempotency.c.key).where(idempotency.c.created_at < now - KEPT_FOR).limit(1)).first()
    for job_id in due:
        with database.write() as tx:
            job = locked(database, tx, job_id)
            if job is not None and job.status in (COMPLETED, FAILED):
                archive(database, tx, job)
    if spent:
        with database.write() as tx:
            tx.execute(delete(idempotency).where(idempotency.c.created_at < now - KEPT_FOR))
