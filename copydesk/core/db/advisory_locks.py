"""The advisory locks of the main database, in one list so that each purpose has a different number."""

from enum import IntEnum, unique

from sqlalchemy import Connection, text

from copydesk.core.db.database import Database

ACQUIRE_LOCK = text("select pg_advisory_xact_lock(:number)")


@unique
class AdvisoryLock(IntEnum):
    MIGRATE_DATABASE = 7264_1001
    CLAIM_RUN = 7264_1002
    PREPARE_CLICKHOUSE = 7264_1003


def acquire_lock(database: Database, tx: Connection, lock: AdvisoryLock) -> None:
    """Acquires the lock until the transaction ends. Does nothing on SQLite, which has one writer at a time."""
    if not database.is_sqlite:
        tx.execute(ACQUIRE_LOCK, {"number": int(lock)})
