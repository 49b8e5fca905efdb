"""Leases of shards: one process at a time changes the counts of a shard.

It commits a plan to the main database and then applies it. If it dies, the next holder of the lease applies the plan.
"""

import json
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypedDict

from sqlalchemy import Connection, text

from copydesk.analytics.stores.clickhouse.connection.errors import StoreBusy
from copydesk.analytics.stores.clickhouse.folding.batches import delete_folded_batches
from copydesk.analytics.tables import view_folds
from copydesk.core.clock import SECOND
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

LEASE_MS = 15 * SECOND
ACQUIRE_TIMEOUT_SECONDS = 60.0
"""How long a process waits for a lease."""
POLL_SECONDS = 0.05
ACQUIRE_LEASE = """
    update view_folds set holder = :holder, until = {now} + :lease
    where shard = :shard and (holder is null or until < {now} or until > {now} + 2 * :lease)
    returning number, decided
"""
"""A lease that expires far in the future is from before the clock was set back, and can be taken over."""
RENEW_LEASE = "update view_folds set until = {now} + :lease where shard = :shard and holder = :holder"
ADVANCE_NUMBER = "update view_folds set number = :next where shard = :shard and holder = :holder and decided is null"
COMMIT_PLAN = """
    update view_folds set decided = :decided
    where shard = :shard and holder = :holder and number = :number and decided is null and until > {now}
"""
SELECT_COMMITTED_PLANS = "select shard, decided from view_folds where decided is not null"
CLEAR_APPLIED_PLAN = "update view_folds set decided = null where shard = :shard and number = :number"
RELEASE_LEASE = "update view_folds set holder = null, until = 0 where shard = :shard and holder = :holder"


class ShardLeaseLost(StoreUnavailable):
    message = "Another process has taken over this task. Nothing was counted twice."


class ShardPlan(TypedDict, total=False):
    """The plan of a lease, in addition to adding its staged changes to the index and counting its claimed batches."""

    project: str
    """The project to delete, or the project of `visitor`."""
    visitor: int
    """The visitor to delete; if present, the project itself stays."""
    upto: int
    """The last batch that was logged before the plan; views of later batches are not deleted."""
    chosen: str
    """The project whose AI classes change."""
    corrected: str
    """The project whose views are corrected."""
    withdraws: bool
    """Whether the correction withdraws views; otherwise it gives them another class."""
    days: list[int]
    """The days of the corrected views, on all shards."""


class ShardLease:
    """The lease of a shard, with a fold number that no other lease of the shard has. The holder may commit a plan under
    this number while the lease is valid."""

    def __init__(self, database: Database, shard: int, holder: str, number: int, plan_json: str | None) -> None:
        self._database = database
        self.shard = shard
        self._holder = holder
        self.number = number
        self.committed_plan: ShardPlan | None = json.loads(plan_json) if plan_json else None

    def advance_number(self, above: int) -> None:
        """Assigns a new number, greater than `above` and the current one."""
        number = max(self.number, above) + 1
        with self._database.write() as tx:
            self._execute_while_held(tx, ADVANCE_NUMBER, next=number)
        self.number = number

    def commit_plan(self, tx: Connection, plan: ShardPlan) -> None:
        """Stores the plan.

        Once the transaction is committed, the plan will be applied, by another process if this one dies.
        """
        self._execute_while_held(tx, COMMIT_PLAN, number=self.number, decided=json.dumps(plan))
        self.committed_plan = plan

    def renew(self) -> None:
        """Renews the lease. Raises ShardLeaseLost if another process has taken it over.

        Call it before each write to the shard, and after reads that no other process may interrupt.
        """
        with self._database.write() as tx:
            self.renew_in(tx)

    def renew_in(self, tx: Connection) -> None:
        self._execute_while_held(tx, RENEW_LEASE, lease=LEASE_MS)

    def mark_applied(self) -> None:
        """Deletes the plan and its batches, because they are applied."""
        with self._database.write() as tx:
            delete_folded_batches(tx, self.shard, self.number)
            self._execute(tx, CLEAR_APPLIED_PLAN, number=self.number)
        self.committed_plan = None

    def release(self) -> None:
        with self._database.write() as tx:
            self._execute(tx, RELEASE_LEASE)

    def _execute_while_held(self, tx: Connection, statement: str, **extra: Any) -> None:
        if not self._execute(tx, statement, **extra):
            raise ShardLeaseLost

    def _execute(self, tx: Connection, statement: str, **extra: Any) -> int:
        params = {"shard": self.shard, "holder": self._holder, **extra}
        used_params = {name: value for name, value in params.items() if f":{name}" in statement}
        return tx.execute(text(statement.format(now=self._database.clock_sql)), used_params).rowcount


class ShardLeases:
    def __init__(self, database: Database, timeout_seconds: float = ACQUIRE_TIMEOUT_SECONDS) -> None:
        self._database = database
        self._timeout_seconds = timeout_seconds
        self._local_lock = threading.Lock()

    def read_committed_plans(self) -> dict[int, ShardPlan]:
        """Returns the plans that are committed and not yet applied, by shard."""
        with self._database.read() as tx:
            return {row.shard: json.loads(row.decided) for row in tx.execute(text(SELECT_COMMITTED_PLANS))}

    @contextmanager
    def acquire(self, shards: Iterable[int], timeout_seconds: float | None = None) -> Iterator[list[ShardLease]]:
        """Acquires the leases of these shards and renews them in a thread. Raises StoreBusy on a timeout.

        Always acquires in the order of the shards, which prevents deadlocks.
        """
        timeout_seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + timeout_seconds
        if not self._local_lock.acquire(timeout=timeout_seconds):
            raise StoreBusy
        with ExitStack() as cleanup:
            cleanup.callback(self._local_lock.release)
            leases: list[ShardLease] = []
            stopped = threading.Event()
            threading.Thread(
                target=self._keep_renewing, args=[leases, stopped], name="shard-lease", daemon=True
            ).start()
            cleanup.callback(stopped.set)
            for shard in sorted(shards):
                lease = self._acquire_one(shard, deadline)
                cleanup.callback(self._release, lease)
                leases.append(lease)
            yield leases

    def _acquire_one(self, shard: int, deadline: float) -> ShardLease:
        holder = secrets.token_hex(16)
        params = {"shard": shard, "holder": holder, "lease": LEASE_MS}
        statement = text(ACQUIRE_LEASE.format(now=self._database.clock_sql))
        while True:
            with self._database.write() as tx:
                row = tx.execute(statement, params).first()
                if row is None and insert_if_absent(tx, view_folds, {"shard": shard, "number": 0, "until": 0}):
                    row = tx.execute(statement, params).first()
            if row is not None:
                return ShardLease(self._database, shard, holder, row.number, row.decided)
            if time.monotonic() > deadline:
                raise StoreBusy
            time.sleep(POLL_SECONDS)

    def _keep_renewing(self, leases: list[ShardLease], stopped: threading.Event) -> None:
        while not stopped.wait(LEASE_MS / SECOND / 3):
            for lease in list(leases):
                try:
                    lease.renew()
                except StoreUnavailable as error:
                    log.warning("could not renew the lease of shard %s: %s", lease.shard, error)

    def _release(self, lease: ShardLease) -> None:
        try:
            lease.release()
        except StoreUnavailable as error:
            log.warning("could not release the lease of shard %s; it will expire: %s", lease.shard, error)
