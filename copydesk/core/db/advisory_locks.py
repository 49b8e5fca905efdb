"""The advisory locks of the main database: one list, so that no two purposes share a number.

Versions of Copydesk that run beside each other agree by these numbers, so a purpose keeps its number for good.
"""

from enum import IntEnum, unique

from sqlalchemy import Connection, text

from copydesk.core.db.database import Database

ACQUIRE_LOCK = text("select pg_advisory_xact_lock(:number)")


@unique
class AdvisoryLock(IntEnum):
    MIGRATE_DATABASE = 7264_1001
    CLAIM_RUN = 7264_1002
    PREPARE_CLICKHOUSE = 7264_1003
    """Had CLAIM_RUN's number in earlier versions, so that every claim waited for it."""


def acquire_lock(database: Database, tx: Connection, lock: AdvisoryLock) -> None:
    """Waits for the lock and holds it until the transaction ends. SQLite has one writer at a time and needs none."""
    if not database.is_sqlite:
        tx.execute(ACQUIRE_LOCK, {"number": int(lock)})
