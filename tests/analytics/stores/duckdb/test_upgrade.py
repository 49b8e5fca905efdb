"""A store of an earlier schema is upgraded when it is opened."""

from pathlib import Path

import duckdb

from copydesk.analytics.stores.duckdb import DuckStore
from tests.analytics.stores.conformance.test_corrections import read_reports
from tests.analytics.stores.conformance.test_store import log_and_fold, make_view


def test_store_without_missing_pages_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, make_view(event=1))
    store.log_views([make_view(visitor=2)])
    before = read_reports(store)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("drop table missing_referrers")
        connection.execute("delete from marks where name = 'missing_referrers'")
        connection.execute("update marks set value = 3 where name = 'schema'")
    store = DuckStore(path)
    assert read_reports(store) == before
    log_and_fold(store, make_view("/gone")._replace(status=404))
    assert [row.path for row in store.list_missing_pages("docs").rows] == ["/gone"]
    assert store.count_visitors_by_page("docs").totals.total == 2
    store.close()


def test_store_of_the_previous_schema_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, make_view(event=1))
    before = read_reports(store)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("alter table views drop column event")
        connection.execute("update marks set value = 2 where name = 'schema'")
    store = DuckStore(path)
    assert read_reports(store) == before
    assert store.withdraw_views("docs", [1]) == 0
    assert store.log_views([make_view(event=1), make_view(event=2)]).duplicates == (0,)
    store.close()
