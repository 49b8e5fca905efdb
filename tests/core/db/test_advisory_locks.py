"""Advisory locks: each purpose waits only for its own kind, and claims of different versions exclude each other."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.schema import prepare_schema
from copydesk.core.db import advisory_locks as locks
from copydesk.core.db.advisory_locks import AdvisoryLock, acquire_lock
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.execution.queue import Claim, Queue, QueueLimits
from copydesk.jobs.service import NewJob
from tests.support import migrated_databases

PATIENCE_SECONDS = 120.0
BOUNDS = QueueLimits(lease_ms=600_000, project_slots=2, total_slots=5)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk on PostgreSQL, with one queued job."""
    url = migrated_databases.new_database("postgresql", tmp_path)
    desk = open_desk(Settings(data=tmp_path / "data", database_url=url))
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="ada")
    desk.jobs.create(project, NewJob("x"))
    yield desk
    desk.close()


class SlowCluster:
    """A ClickHouse without tables, whose creation waits for `finish`."""

    def __init__(self) -> None:
        self.began, self.finish = threading.Event(), threading.Event()
        self.admin = SimpleNamespace(query=lambda *_: [])
        self.address = SimpleNamespace(database="copydesk")
        self.shards: list[Any] = []

    def create_tables(self) -> None:
        self.began.set()
        assert self.finish.wait(PATIENCE_SECONDS)


def claim_in_thread(desk: Desk, claims: list[Claim | None]) -> threading.Thread:
    thread = threading.Thread(target=lambda: claims.append(Queue(desk.database, BOUNDS).claim("worker")))
    thread.start()
    return thread


@contextmanager
def prepare_in_background(desk: Desk, cluster: SlowCluster) -> Iterator[None]:
    """Creates ClickHouse's tables in another thread while the block runs."""
    creation = threading.Thread(target=lambda: prepare_schema(cast(Cluster, cluster), desk.database))
    creation.start()
    try:
        assert cluster.began.wait(PATIENCE_SECONDS)
        yield
    finally:
        cluster.finish.set()
        creation.join(PATIENCE_SECONDS)


@pytest.mark.deep
def test_a_claim_does_not_wait_for_an_upgrade_of_clickhouse(desk: Desk) -> None:
    claims: list[Claim | None] = []
    with prepare_in_background(desk, SlowCluster()):
        thread = claim_in_thread(desk, claims)
        thread.join(PATIENCE_SECONDS / 4)
        claimed_meanwhile = list(claims)
    thread.join(PATIENCE_SECONDS)
    assert len(claimed_meanwhile) == 1
    assert claimed_meanwhile[0] is not None


@pytest.mark.deep
@pytest.mark.parametrize("held", list(AdvisoryLock))
def test_locks_of_different_purposes_do_not_block_each_other(desk: Desk, held: AdvisoryLock) -> None:
    with desk.database.write() as tx:
        acquire_lock(desk.database, tx, held)
        for other in AdvisoryLock:
            taken: list[AdvisoryLock] = []
            thread = threading.Thread(target=lambda: take_in_another_session(desk, other, taken))  # noqa: B023
            thread.start()
            thread.join(PATIENCE_SECONDS)
            assert bool(taken) == (other is not held)


def take_in_another_session(desk: Desk, lock: AdvisoryLock, taken: list[AdvisoryLock]) -> None:
    with desk.database.write() as tx:
        if tx.exec_driver_sql(f"select pg_try_advisory_xact_lock({int(lock)})").scalar():
            taken.append(lock)


@pytest.mark.deep
def test_a_claim_waits_for_another_claim(desk: Desk) -> None:
    claims: list[Claim | None] = []
    with desk.database.write() as tx:
        acquire_lock(desk.database, tx, AdvisoryLock.CLAIM_RUN)
        thread = claim_in_thread(desk, claims)
        thread.join(1)
        assert claims == []
    thread.join(PATIENCE_SECONDS)
    assert claims != [None]
    assert len(claims) == 1


def test_every_advisory_lock_is_in_the_list() -> None:
    package = Path(locks.__file__).parents[1]
    taking = [file for file in package.rglob("*.py") if re.search(r"pg_(try_)?advisory", file.read_text())]
    assert taking == [Path(locks.__file__)]
