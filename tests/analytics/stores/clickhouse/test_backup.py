"""A backup is complete or fails: also of a store with deleted data, and when another process interferes."""

from pathlib import Path

import pytest
from sqlalchemy import text

from copydesk.analytics.stores.clickhouse.backup import back_up, restore
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLeaseLost
from copydesk.core.db.database import Database
from tests.analytics.stores.conformance.test_store import counted, view
from tests.support.clickhouse_store import FILE, OnClickHouse


class Overtaken(Cluster):
    """A cluster whose first call under a lease takes so long that another process takes over the lease."""

    def __init__(self, store: OnClickHouse) -> None:
        super().__init__(store._cluster.address)
        self._main: Database = store.main

    def pin_synced_replica(self, shard: Node) -> Node:
        with self._main.write() as tx:
            tx.execute(text("update view_folds set holder = 'another'"))
        return super().pin_synced_replica(shard)


def test_backup_after_deleting_a_project_can_be_restored(store: OnClickHouse, tmp_path: Path) -> None:
    store.log_views([view(project="other")])
    store.log_views([view()])
    store.forget_project("other")
    assert len(store._batches.list_for_shard(0)) == 1
    with store.main.write() as tx:
        store._batches.add_batch(tx, 99, 1 << 80, {0: 0})  # backups of other versions may name such numbers
    store.back_up(tmp_path / "copy")
    (folder := tmp_path / "loaded").mkdir()
    loaded = OnClickHouse(folder, tmp_path / "copy")
    assert loaded.fold() == 1
    assert loaded.count_visitors_by_page("docs").totals.total == 1
    loaded.close()
    (folder / FILE).unlink()


def test_process_that_lost_its_lease_neither_backs_up_nor_restores(store: OnClickHouse, tmp_path: Path) -> None:
    counted(store, view())
    store.log_views([view(visitor=2)])
    store.back_up(tmp_path / "copy")
    with pytest.raises(ShardLeaseLost):
        back_up(Overtaken(store), store._batches, store._shard_leases, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    (folder := tmp_path / "loaded").mkdir()
    empty = OnClickHouse(folder)
    assert empty.fold() == 0
    with pytest.raises(ShardLeaseLost):
        restore(Overtaken(empty), empty._batches, empty._shard_leases, tmp_path / "copy")
    assert empty.backlog() == 0
    empty.close()
    (folder / FILE).unlink()
