"""Turns: one process at a time changes a shard's numbers. What it decides is carried out, by another if need be."""

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
from copydesk.analytics.stores.clickhouse.folding.batches import counted
from copydesk.core.clock import SECOND
from copydesk.core.db.database import Database
from copydesk.core.errors import StoreDown

log = logging.getLogger(__name__)

LEASE = 15 * SECOND
PATIENCE = 60.0
"""Seconds for which a turn is waited for."""
PAUSE = 0.05
ADD = "insert into view_folds (shard, number, until) values (:shard, 0, 0) on conflict (shard) do nothing"
TAKE = """
    update view_folds set holder = :holder, until = {now} + :lease
    where shard = :shard and (holder is null or until < {now} or until > {now} + 2 * :lease)
    returning number, decided
"""
"""A lease that ends far ahead is from before the clock was set back."""
RENEW = "update view_folds set until = {now} + :lease where shard = :shard and holder = :holder"
ADVANCE = "update view_folds set number = :next where shard = :shard and holder = :holder and decided is null"
DECIDE = """
    update view_folds set decided = :decided
    where shard = :shard and holder = :holder and number = :number and decided is null and until > {now}
"""
PLANS = "select shard, decided from view_folds where decided is not null"
SETTLE = "update view_folds set decided = null where shard = :shard and number = :number"
RELEASE = "update view_folds set holder = null, until = 0 where shard = :shard and holder = :holder"


class TurnLost(StoreDown):
    message = "Another process has taken over; nothing was counted twice."


class Plan(TypedDict, total=False):
    """What a turn decides, beside adding to the index what it staged and counting the batches it claimed."""

    project: str
    """Is forgotten."""
    visitor: int
    """Is forgotten instead, of this project."""
    upto: int
    """The last batch that was logged before."""
    chosen: str
    """The project whose choice of what is AI is carried out."""


class Turn:
    """A number that no other turn of the shard has, and the right to decide with it while the lease lasts."""

    def __init__(self, database: Database, shard: int, holder: str, number: int, decided: str | None) -> None:
        self._database, self.shard, self._holder = database, shard, holder
        self.number = number
        self.decided: Plan | None = json.loads(decided) if decided else None

    def advance(self, above: int) -> None:
        """A new number, above this one too."""
        number = max(self.number, above) + 1
        with self._database.write() as tx:
            self._must(tx, ADVANCE, next=number)
        self.number = number

    def decide(self, tx: Connection, plan: Plan) -> None:
        """From the commit on, the plan is carried out, whatever happens to this process."""
        self._must(tx, DECIDE, number=self.number, decided=json.dumps(plan))
        self.decided = plan

    def hold(self) -> None:
        """Before each act, and after what nobody may have come between: stops one whose turn another has taken."""
        with self._database.write() as tx:
            self.hold_in(tx)

    def hold_in(self, tx: Connection) -> None:
        self._must(tx, RENEW, lease=LEASE)

    def settle(self) -> None:
        """The plan is carried out."""
        with self._database.write() as tx:
            counted(tx, self.shard, self.number)
            self._run(tx, SETTLE, number=self.number)
        self.decided = None

    def release(self) -> None:
        with self._database.write() as tx:
            self._run(tx, RELEASE)

    def _must(self, tx: Connection, statement: str, **given: Any) -> None:
        if not self._run(tx, statement, **given):
            raise TurnLost

    def _run(self, tx: Connection, statement: str, **given: Any) -> int:
        asked = {"shard": self.shard, "holder": self._holder, **given}
        used = {name: value for name, value in asked.items() if f":{name}" in statement}
        return tx.execute(text(statement.format(now=self._database.clock)), used).rowcount


class Turns:
    def __init__(self, database: Database, patience: float = PATIENCE) -> None:
        self._database, self._patience = database, patience
        self._mine = threading.Lock()

    def plans(self) -> dict[int, Plan]:
        """What is decided and not carried out yet, by shard."""
        with self._database.read() as tx:
            return {row.shard: json.loads(row.decided) for row in tx.execute(text(PLANS))}

    @contextmanager
    def of(self, shards: Iterable[int], patience: float | None = None) -> Iterator[list[Turn]]:
        """Their turns, waited for in the order of the shards, so that no two wait for each other."""
        patience = self._patience if patience is None else patience
        until = time.monotonic() + patience
        if not self._mine.acquire(timeout=patience):
            raise StoreBusy
        with ExitStack() as ending:
            ending.callback(self._mine.release)
            taken: list[Turn] = []
            ended = threading.Event()
            threading.Thread(target=self._renew, args=[taken, ended], name="turn", daemon=True).start()
            ending.callback(ended.set)
            for shard in sorted(shards):
                turn = self._take(shard, until)
                ending.callback(self._release, turn)
                taken.append(turn)
            yield taken

    def _take(self, shard: int, until: float) -> Turn:
        holder = secrets.token_hex(16)
        asked = {"shard": shard, "holder": holder, "lease": LEASE}
        take = text(TAKE.format(now=self._database.clock))
        while True:
            with self._database.write() as tx:
                found = tx.execute(take, asked).first()
                if found is None and tx.execute(text(ADD), {"shard": shard}).rowcount:
                    found = tx.execute(take, asked).first()
            if found is not None:
                return Turn(self._database, shard, holder, found.number, found.decided)
            if time.monotonic() > until:
                raise StoreBusy
            time.sleep(PAUSE)

    def _renew(self, turns: list[Turn], ended: threading.Event) -> None:
        while not ended.wait(LEASE / SECOND / 3):
            for turn in list(turns):
                try:
                    turn.hold()
                except StoreDown as error:
                    log.warning("the turn of shard %s could not be renewed: %s", turn.shard, error)

    def _release(self, turn: Turn) -> None:
        try:
            turn.release()
        except StoreDown as error:
            log.warning("the turn of shard %s could not be given back and ends by itself: %s", turn.shard, error)
