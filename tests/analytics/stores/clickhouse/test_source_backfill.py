"""A ClickHouse store of the previous schema gets the referrers of its stored views when it is opened."""

from pathlib import Path

from copydesk.analytics.stores.base import DayRange, Store
from tests.analytics.stores.conformance.test_audience import make_arrival
from tests.analytics.stores.conformance.test_store import MONDAY
from tests.support.clickhouse import run_query
from tests.support.clickhouse_store import URL_FILE_NAME, FolderClickHouseStore

REFERRERS = ("", "google.com", "bing.com", "example.org", "docs.example.com")


def read_referrers(store: Store) -> list[object]:
    ranges = [DayRange(MONDAY + first, MONDAY + first + length) for first in range(3) for length in (1, 2, 6)]
    return [store.list_referrers("docs", days) for days in ranges]


def downgrade_to_version_4(folder: Path) -> None:
    database = (folder / URL_FILE_NAME).read_text().rsplit("/", 1)[1]
    for table in ("visits", "firsts", "counts", "scopes"):
        run_query(f"alter table {database}.{table} delete where sort >= 5 settings mutations_sync = 2")
    for table in ("inbox", "views", "corrected_views"):
        for column in ("visited", "source", "source_kind"):
            run_query(f"alter table {database}.{table} drop column {column} settings mutations_sync = 2")
    run_query(f"truncate table {database}.schema")
    run_query(f"insert into {database}.schema select 4")


def test_referrers_of_stored_views_are_counted_by_the_upgrade(store: FolderClickHouseStore, tmp_path: Path) -> None:
    store.log_views([make_arrival(REFERRERS[n % 5], n % 7 + 1, MONDAY + n % 4) for n in range(40)])
    store.fold()
    expected = read_referrers(store)
    store.close()
    downgrade_to_version_4(tmp_path)
    upgraded = FolderClickHouseStore(tmp_path, tmp_path / "analytics.duckdb")
    assert read_referrers(upgraded) == expected
    upgraded.log_views([make_arrival("bing.com", 99, MONDAY + 9)])
    upgraded.fold()
    assert upgraded.list_referrers("docs").totals.search == 8
    upgraded.close()
