"""After a power loss, a server has its rows but may have lost its deduplication records; older stores still work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.folding.apply_correction import CORRECTION_TABLES
from copydesk.analytics.stores.clickhouse.folding.apply_plan import SUMMED_TABLES
from copydesk.analytics.stores.clickhouse.schema import CLICKHOUSE_SCHEMA_VERSION
from tests.analytics.stores.clickhouse.faults import kill_at_statement
from tests.analytics.stores.clickhouse.test_crash import (
    FIRST,
    SECOND,
    assert_same_reports,
    fill_store,
    fill_store_with,
)
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.clickhouse_store import FolderClickHouseStore, main_database
from tests.support.drills import mark_drills

MARKS = (2, 5, 9)
"""The statements of a fold that mark a table as done."""


@pytest.fixture
def server() -> Iterator[ClickHouseServer]:
    with clickhouse_server() as started:
        yield started


@pytest.mark.parametrize("mark", mark_drills(MARKS, default=[5]))
def test_fold_interrupted_by_power_loss_between_tables_counts_once(
    server: ClickHouseServer, tmp_path: Path, mark: int
) -> None:
    main = main_database(tmp_path)
    store, model = ClickHouseStore(server.new_database(), main), ReferenceStore()
    store.log_views(FIRST)
    model.log_views(FIRST)
    with kill_at_statement(mark, is_done=True) as sent:
        store.fold()
    assert sent[-1].startswith("insert into carried")
    server.kill()
    tokens = list(server.folder.rglob("deduplication_logs/*"))
    assert len(tokens) > len(SUMMED_TABLES)
    for log in tokens:
        log.unlink()
    server.start()
    assert store.fold() == model.fold()
    assert_same_reports(store, model)
    assert sum(row.views for row in store.list_rules("docs")) == len(FIRST) - 1, "all but the missing page"
    store.close()
    main.close()


def test_store_without_missing_pages_is_upgraded(store: FolderClickHouseStore, tmp_path: Path) -> None:
    model = fill_store_with(store, *([view for view in views if not view.is_missing] for views in (FIRST, SECOND)))
    node = store._cluster.reader
    for statement in (
        *(f"alter table {table} drop column visited" for table in ("inbox", "views", "corrected_views")),
        *(f"alter table {table} drop column lost" for table in ("inbox", "corrected_views")),
        *(f"alter table {table} drop column missing" for table in ("inbox", "views", "corrected_views")),
        "drop table missing_referrers",
        f"alter table schema delete where number = {CLICKHOUSE_SCHEMA_VERSION}",
        "insert into schema select 3",
    ):
        node.execute(statement)
    newer = FolderClickHouseStore(tmp_path)
    assert newer.fold() == model.fold()
    assert_same_reports(newer, model)
    missing = model.folded[0]._replace(status=404, event=None, referrer="example.org")
    for each in (newer, model):
        each.log_views([missing])
        each.fold()
    assert newer.list_missing_pages("docs") == model.list_missing_pages("docs", ALL_DAYS, 50, 0)
    assert newer.withdraw_views("docs", [3]) == model.withdraw_views("docs", [3]) == 1
    assert_same_reports(newer, model)
    node.execute("alter table schema delete where number = 3")  # another test may use this database
    newer.close()


def test_store_of_schema_version_1_is_upgraded(store: FolderClickHouseStore, tmp_path: Path) -> None:
    model = fill_store(store)
    node = store._cluster.reader
    for statement in (
        *(f"drop table {table}" for table in CORRECTION_TABLES),
        "alter table views drop column event",
        "drop table carried",
        "alter table staged modify ttl made + toIntervalDay(7)",
        f"alter table schema delete where number = {CLICKHOUSE_SCHEMA_VERSION}",
        "insert into schema select 1",
    ):
        node.execute(statement)
    newer = FolderClickHouseStore(tmp_path)
    assert newer.fold() == model.fold()
    assert_same_reports(newer, model)
    assert node.query("select max(number) from schema") == [(CLICKHOUSE_SCHEMA_VERSION,)]
    assert "TTL" not in str(node.query("show create table staged"))
    assert newer.withdraw_views("docs", [1]) == 0, "views of that version have no event"
    assert newer.withdraw_views("docs", [3]) == model.withdraw_views("docs", [3]) == 1
    assert_same_reports(newer, model)
    newer.close()
