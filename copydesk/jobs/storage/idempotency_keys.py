"""Idempotency keys: a repeated request returns the result of the first one."""

from sqlalchemy import Connection, delete, select

from copydesk.core import clock
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import Conflict
from copydesk.jobs.storage.tables import idempotency

IDEMPOTENCY_KEY_TTL_MS = clock.DAY


class IdempotencyKeyReused(Conflict):
    code = "idempotency_key_reused"
    message = "This Idempotency-Key was already used with a different body."


def claim_idempotency_key(tx: Connection, project_id: str, key: str, digest: str, result_id: str) -> str | None:
    """Stores the key for this result and returns None, or returns the result of the request that used the key before.

    The result is a job, or the request for an automation's run. Raises IdempotencyKeyReused when the earlier request
    had a different body.
    """
    now = clock.now()
    same_key = (idempotency.c.project_id == project_id) & (idempotency.c.key == key)
    tx.execute(delete(idempotency).where(same_key, idempotency.c.created_at < now - IDEMPOTENCY_KEY_TTL_MS))
    row = {"project_id": project_id, "key": key, "digest": digest, "job_id": result_id, "created_at": now}
    if insert_if_absent(tx, idempotency, row):
        return None
    return find_idempotent_result(tx, project_id, key, digest)


def find_idempotent_result(tx: Connection, project_id: str, key: str, digest: str) -> str | None:
    """Returns the result of the request that used the key before, or None. Raises IdempotencyKeyReused as above."""
    same_key = (idempotency.c.project_id == project_id) & (idempotency.c.key == key)
    is_valid = idempotency.c.created_at >= clock.now() - IDEMPOTENCY_KEY_TTL_MS
    row = tx.execute(select(idempotency).where(same_key, is_valid)).first()
    if row is None:
        return None
    if row.digest != digest:
        raise IdempotencyKeyReused
    result_id: str = row.job_id
    return result_id
