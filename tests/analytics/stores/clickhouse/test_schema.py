"""The tables in ClickHouse are created once, and those of a newer version are refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.schema import CLICKHOUSE_SCHEMA_VERSION, prepare_schema
from copydesk.analytics.stores.errors import StoreSchemaNewer
from tests.support.clickhouse_store import main_database


class FakeCluster:
    """A cluster whose tables have a version; 0 means that there are none."""

    def __init__(self, version: int) -> None:
        self.version, self.creations = version, 0
        self.address = SimpleNamespace(database="copydesk")
        self.admin = SimpleNamespace(query=lambda *_: [(1,)] if self.version else [])
        self.reader = SimpleNamespace(query=lambda *_: [(self.version,)])
        self.shards = [SimpleNamespace(execute=self._store_version)]

    def create_tables(self) -> None:
        self.creations += 1

    def _store_version(self, statement: str, params: dict[str, int]) -> None:
        assert statement.startswith("insert into schema")
        self.version = params["number"]


def test_tables_are_created_once(tmp_path: Path) -> None:
    cluster, main = FakeCluster(0), main_database(tmp_path)
    for _ in range(2):
        prepare_schema(cast(Cluster, cluster), main)
    main.close()
    assert (cluster.creations, cluster.version) == (1, CLICKHOUSE_SCHEMA_VERSION)


def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    cluster, main = FakeCluster(CLICKHOUSE_SCHEMA_VERSION + 1), main_database(tmp_path)
    with pytest.raises(StoreSchemaNewer, match="newer version"):
        prepare_schema(cast(Cluster, cluster), main)
    main.close()
    assert cluster.creations == 0
