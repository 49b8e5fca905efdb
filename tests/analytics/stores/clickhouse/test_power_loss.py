"""After a power loss, a server has its rows but may have lost its deduplication records."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.folding.apply_plan import SUMMED_TABLES
from tests.analytics.stores.clickhouse.faults import kill_at_statement
from tests.analytics.stores.clickhouse.test_crash import FIRST, assert_same_reports
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.clickhouse_store import main_database
from tests.support.drills import mark_drills

pytestmark = pytest.mark.deep

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
