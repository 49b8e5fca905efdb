"""Shard leases: a process that lost its lease, because it died or was unavailable, can no longer decide anything."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

from copydesk.analytics.stores.clickhouse.connection.errors import StoreBusy
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLeaseLost, ShardLeases
from copydesk.core.clock import HOUR
from copydesk.core.db.database import Database
from tests.support import migrated_databases


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.drill)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    opened = Database(migrated_databases.new_database(request.param, tmp_path))
    yield opened
    opened.close()


def set_lease_end(database: Database, moment: str) -> None:
    with database.write() as tx:
        tx.execute(text(f"update view_folds set until = {moment}"))


def test_shard_lease_is_exclusive(database: Database) -> None:
    with (
        ShardLeases(database).acquire([0]),
        pytest.raises(StoreBusy),
        ShardLeases(database, timeout_seconds=0.1).acquire([0]),
    ):
        pass
    with ShardLeases(database, timeout_seconds=0).acquire([0, 1]) as turns:
        assert [turn.shard for turn in turns] == [0, 1]


def test_thread_waiting_for_the_lease_times_out(database: Database) -> None:
    turns = ShardLeases(database)

    def take(shard: int) -> None:
        with turns.acquire([shard], timeout_seconds=0.1):
            pass

    with turns.acquire([0]), ThreadPoolExecutor() as pool:
        for shard in (0, 1):
            with pytest.raises(StoreBusy):
                pool.submit(take, shard).result()
    take(0)


def test_holder_whose_lease_was_taken_over_cannot_write(database: Database) -> None:
    with ShardLeases(database).acquire([0]) as [late]:
        late.advance_number(0)
        set_lease_end(database, "1")
        with ShardLeases(database).acquire([0]) as [next_one]:
            next_one.advance_number(0)
            assert next_one.number > late.number
            for act in (late.renew, lambda: late.advance_number(0)):
                with pytest.raises(ShardLeaseLost):
                    act()
            with pytest.raises(ShardLeaseLost), database.write() as tx:
                late.commit_plan(tx, {})
            with database.write() as tx:
                next_one.commit_plan(tx, {})


def test_holder_whose_lease_expired_cannot_write(database: Database) -> None:
    with ShardLeases(database).acquire([0]) as [late]:
        late.advance_number(0)
        set_lease_end(database, "1")
        with pytest.raises(ShardLeaseLost), database.write() as tx:
            late.commit_plan(tx, {})


def test_pending_change_passes_to_the_next_holder_with_its_number(database: Database) -> None:
    with ShardLeases(database).acquire([0]) as [first]:
        first.advance_number(41)
        with database.write() as tx:
            first.commit_plan(tx, {"project": "docs", "upto": 3})
    with ShardLeases(database).acquire([0]) as [second]:
        assert (second.number, second.committed_plan) == (42, {"project": "docs", "upto": 3})
        second.mark_applied()
    with ShardLeases(database).acquire([0]) as [third]:
        assert third.committed_plan is None


def test_lease_ends_after_the_clock_was_set_back(database: Database) -> None:
    with ShardLeases(database).acquire([0]):
        set_lease_end(database, f"{database.clock_sql} + {HOUR}")
        with ShardLeases(database, timeout_seconds=0.1).acquire([0]):
            pass
