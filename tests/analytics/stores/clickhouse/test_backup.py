"""A backup is complete or fails: also of a store with deleted data, and when another process interferes."""

from pathlib import Path

import pytest
from sqlalchemy import text

from copydesk.analytics.stores.clickhouse.backup import back_up, restore
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLeaseLost
from copydesk.core.db.database import Database
from tests.analytics.stores.conformance.test_store import log_and_fold, make_view
from tests.support.clickhouse_store import URL_FILE_NAME, FolderClickHouseStore

pytestmark = pytest.mark.deep


class OvertakenCluster(Cluster):
    """A cluster whose first call under a lease takes so long that another process takes over the lease."""

    def __init__(self, store: FolderClickHouseStore) -> None:
        super().__init__(store._cluster.address)
        self._main: Database = store.main

    def pin_synced_replica(self, shard: Node) -> Node:
        with self._main.write() as tx:
            tx.execute(text("update view_folds set holder = 'another'"))
        return super().pin_synced_replica(shard)


def test_backup_after_deleting_a_project_can_be_restored(store: FolderClickHouseStore, tmp_path: Path) -> None:
    store.log_views([make_view(project="other")])
    store.log_views([make_view()])
    store.forget_project("other")
    assert len(store._batches.list_for_shard(0)) == 1
    store.back_up(tmp_path / "copy")
    (folder := tmp_path / "loaded").mkdir()
    loaded = FolderClickHouseStore(folder, tmp_path / "copy")
    assert loaded.fold() == 1
    assert loaded.count_visitors_by_page("docs").totals.total == 1
    loaded.close()
    (folder / URL_FILE_NAME).unlink()


def test_process_that_lost_its_lease_neither_backs_up_nor_restores(
    store: FolderClickHouseStore, tmp_path: Path
) -> None:
    log_and_fold(store, make_view())
    store.log_views([make_view(visitor=2)])
    store.back_up(tmp_path / "copy")
    with pytest.raises(ShardLeaseLost):
        back_up(OvertakenCluster(store), store._batches, store._shard_leases, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    (folder := tmp_path / "loaded").mkdir()
    empty = FolderClickHouseStore(folder)
    assert empty.fold() == 0
    with pytest.raises(ShardLeaseLost):
        restore(OvertakenCluster(empty), empty._batches, empty._shard_leases, tmp_path / "copy")
    assert empty.backlog() == 0
    empty.close()
    (folder / URL_FILE_NAME).unlink()
