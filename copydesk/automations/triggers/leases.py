"""Leases on background tasks: one process at a time does a task. They save work; no correctness rests on them."""

import os
import socket

from sqlalchemy import Connection, select, text

from copydesk.automations.tables import leases
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.ids import random_text

LEASE_MS = 60 * clock.SECOND
CLOCK_STEP_MS = 15 * 60 * clock.SECOND
"""A lease that ends later than this after the longest one was written before the clock was set back."""
RENEW_LEASE_SQL = """
    update leases set holder = :holder, until = {now} + :lease
    where name = :name and (holder = :holder or until <= {now} or until > {now} + :lease + :step)
"""


class TaskLease:
    def __init__(self, database: Database, name: str, lease_ms: int = LEASE_MS) -> None:
        self.database = database
        self.name = name
        self.lease_ms = lease_ms
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{random_text(6)}"
        self._renew_lease = text(RENEW_LEASE_SQL.format(now=database.clock_sql))

    def acquire(self) -> bool:
        """Acquires or renews the lease. Returns False while another process holds it."""
        params = {"name": self.name, "holder": self.holder, "lease": self.lease_ms, "step": CLOCK_STEP_MS}
        with self.database.write() as tx:
            if tx.execute(self._renew_lease, params).rowcount:
                return True
            until = read_database_clock(self.database, tx) + self.lease_ms
            return insert_if_absent(tx, leases, {"name": self.name, "holder": self.holder, "until": until})


def read_database_clock(database: Database, tx: Connection) -> int:
    now: int = tx.execute(select(database.now)).scalar_one()
    return now
