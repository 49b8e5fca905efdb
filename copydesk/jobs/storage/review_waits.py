"""How long the pull requests of automations have waited for a person, in the caller's transaction."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, text, update

from copydesk.core.db.database import Database, batch_ids
from copydesk.core.db.inserts import insert_if_absent
from copydesk.jobs.job import COMPLETED, FAILED, CreatorKind
from copydesk.jobs.storage.records import EventKind
from copydesk.jobs.storage.tables import events, jobs, messages, review_waits

SELECT_WAIT = select(review_waits).where(review_waits.c.job_id == bindparam("job"))
SELECT_OPENED_AT = select(func.min(events.c.at)).where(
    events.c.job_id == bindparam("job"), events.c.kind == EventKind.PULL_REQUEST
)
SELECT_MESSAGES = select(messages.c.created_at, messages.c.created_by).where(messages.c.job_id == bindparam("job"))
CLAIM_SQL = """
    update review_waits set claimed_at = {now}
    where job_id = :job and mentioned_at is null and (claimed_at is null or claimed_at < {now} - :lease)
"""


@dataclass(frozen=True)
class ReviewWait:
    """`since` is when anyone but Copydesk last touched the pull request, or when it was opened."""

    since: int
    mentioned_at: int | None = None
    claimed_at: int | None = None

    @property
    def own_change_at(self) -> int:
        """When Copydesk may have commented, which is a change of the pull request too; 0 if it did not."""
        return max(self.mentioned_at or 0, self.claimed_at or 0)


def load_wait(tx: Connection, job_id: str) -> ReviewWait | None:
    row = tx.execute(SELECT_WAIT, {"job": job_id}).first()
    return ReviewWait(row.waiting_since, row.mentioned_at, row.claimed_at) if row else None


def find_last_request(tx: Connection, job_id: str) -> int | None:
    """Returns when a person last asked something of the job, or when its pull request was opened; None without one."""
    opened_at: int | None = tx.execute(SELECT_OPENED_AT, {"job": job_id}).scalar()
    if opened_at is None:
        return None
    by_people: list[int] = [
        row.created_at
        for row in tx.execute(SELECT_MESSAGES, {"job": job_id})
        if (row.created_by or {}).get("kind") != CreatorKind.AUTOMATION
    ]
    return max([opened_at, *by_people])


def save_wait(tx: Connection, job_id: str, since: int) -> None:
    """Stores since when the pull request waits. A time before the stored one changes nothing."""
    row = {"job_id": job_id, "waiting_since": since, "claimed_at": None, "mentioned_at": None}
    if not insert_if_absent(tx, review_waits, row):
        is_earlier = (review_waits.c.job_id == job_id) & (review_waits.c.waiting_since < since)
        tx.execute(update(review_waits).where(is_earlier).values(waiting_since=since))


def claim_mention(database: Database, tx: Connection, job_id: str, lease_ms: int) -> bool:
    """Returns whether this process may mention the pull request: no other one does so, or did it before."""
    statement = text(CLAIM_SQL.format(now=database.clock_sql))
    return bool(tx.execute(statement, {"job": job_id, "lease": lease_ms}).rowcount)


def mark_mentioned(tx: Connection, job_id: str, at: int) -> None:
    is_first = (review_waits.c.job_id == job_id) & review_waits.c.mentioned_at.is_(None)
    tx.execute(update(review_waits).where(is_first).values(mentioned_at=at))


def load_mentioned_waits(tx: Connection, job_ids: Collection[str]) -> dict[str, int]:
    """Returns since when the mentioned pull requests of these jobs wait, if they are still open."""
    is_waiting = review_waits.c.mentioned_at.is_not(None) & (jobs.c.pull_state == "open")
    query = (
        select(review_waits.c.job_id, review_waits.c.waiting_since)
        .join(jobs, jobs.c.id == review_waits.c.job_id)
        .where(is_waiting, jobs.c.status.in_((COMPLETED, FAILED)))
    )
    waits: dict[str, int] = {}
    for batch in batch_ids(job_ids):
        waits |= {row.job_id: row.waiting_since for row in tx.execute(query.where(jobs.c.id.in_(batch)))}
    return waits
