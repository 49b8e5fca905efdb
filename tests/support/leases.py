"""Leases that end without waiting for them."""

from sqlalchemy import text

from copydesk.core.db.database import Database


def expire_leases(database: Database) -> None:
    """Ends the leases of workers that were killed or paused, as if their time had passed."""
    now = database.clock_sql
    with database.write() as tx:
        tx.execute(text(f"update runs set lease_until = {now} - 1 where state = 'running' and lease_until > {now}"))
