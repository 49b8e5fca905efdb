"""ClickHouse may be unavailable, slow, locked or newer: a clear error appears soon, and stored views stay."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.analytics.stores.base import LogResult
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.errors import StoreAccessDenied, translate_error
from copydesk.analytics.stores.clickhouse.connection.url import ClickHouseAddress, parse_clickhouse_url
from copydesk.analytics.stores.clickhouse.schema import CLICKHOUSE_SCHEMA_VERSION
from copydesk.analytics.stores.errors import StoreFull, StoreSchemaNewer
from copydesk.analytics.stores.open_store import open_store
from copydesk.core.db.database import Database
from copydesk.core.errors import StoreUnavailable
from copydesk.core.settings import BadSettings, read_settings
from tests.analytics.stores.conformance.test_store import make_view
from tests.support.clickhouse import PASSWORD, ClickHouseServer, clickhouse_server, new_database
from tests.support.clickhouse_store import FolderClickHouseStore, main_database


@pytest.fixture
def main(tmp_path: Path) -> Iterator[Database]:
    database = main_database(tmp_path)
    yield database
    database.close()


@pytest.fixture
def server() -> Iterator[ClickHouseServer]:
    with clickhouse_server() as started:
        yield started


@pytest.mark.deep
def test_acknowledged_views_are_counted_after_a_kill_of_the_server(server: ClickHouseServer, main: Database) -> None:
    store = ClickHouseStore(server.new_database(), main)
    assert store.log_views([make_view(event=1), make_view(visitor=2)]) == LogResult(2)
    server.kill()
    begun = time.monotonic()
    for act in (
        lambda: store.log_views([make_view(event=2)]),
        store.fold,
        lambda: store.count_visitors_by_page("docs"),
    ):
        with pytest.raises(StoreUnavailable):
            act()
    assert time.monotonic() - begun < 60
    server.start()
    assert store.backlog() == 2
    assert store.log_views([make_view(event=1), make_view(event=2, visitor=3)]) == LogResult(1, (0,))
    assert store.fold() == 3
    server.kill()
    server.start()
    assert store.count_visitors_by_page("docs").totals.total == 3
    store.close()


@pytest.mark.deep
def test_server_unavailable_at_startup_is_used_once_available(server: ClickHouseServer, main: Database) -> None:
    store = ClickHouseStore(server.url("made_when_needed"), main)
    server.kill()
    with pytest.raises(StoreUnavailable):
        store.log_views([make_view()])
    server.start()
    assert store.log_views([make_view()]) == LogResult(1)
    store.close()


@pytest.mark.drill
@pytest.mark.deep
def test_silent_server_times_out_quickly(server: ClickHouseServer, main: Database) -> None:
    store = ClickHouseStore(server.new_database(), main)
    store.log_views([make_view()])
    server.pause()
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        store.log_views([make_view()])
    assert time.monotonic() - begun < 60
    server.resume()
    assert store.log_views([make_view()]) == LogResult(1)
    assert store.fold() == 2
    store.close()


@pytest.mark.deep
def test_wrong_password_is_refused_without_showing_it(main: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = ClickHouseStore(new_database().replace(PASSWORD, "se%25cret"), main)
    with pytest.raises(StoreAccessDenied) as refused:
        store.log_views([make_view()])
    told = f"{refused.value!r} {refused.value.__cause__!r} {store._cluster.address!r} {caplog.text}"
    assert "se%cret" not in told
    assert "se%25cret" not in told


@pytest.mark.deep
def test_a_store_of_a_newer_version_is_refused(store: FolderClickHouseStore, tmp_path: Path) -> None:
    store.log_views([make_view()])
    node = store._cluster.reader
    node.execute("insert into schema select {number:UInt32}", {"number": CLICKHOUSE_SCHEMA_VERSION + 1})
    try:
        with pytest.raises(StoreSchemaNewer):
            ClickHouseStore((tmp_path / "clickhouse.url").read_text(), store.main).log_views([make_view()])
    finally:
        node.execute(
            "alter table schema delete where number = {number:UInt32}", {"number": CLICKHOUSE_SCHEMA_VERSION + 1}
        )


@pytest.mark.parametrize(
    ("code", "meant"), [(243, StoreFull), (252, StoreUnavailable), (242, StoreUnavailable), (516, StoreAccessDenied)]
)
def test_server_error_says_what_to_do(code: int, meant: type[StoreUnavailable]) -> None:
    from clickhouse_connect.driver.exceptions import DatabaseError

    assert type(translate_error(DatabaseError("…", code=code))) is meant


@pytest.mark.deep
def test_invalid_query_is_not_reported_as_unavailable_store(store: FolderClickHouseStore) -> None:
    store.log_views([make_view()])
    with pytest.raises(Exception, match="UNKNOWN_TABLE"):
        store._cluster.reader.query("select * from nowhere")


@pytest.mark.parametrize(("url", "expected"), [
    ("clickhouse://host", ClickHouseAddress("host", 8123, "default", "", "copydesk")),
    ("clickhouse://u:p%40@h:1/d?secure=1", ClickHouseAddress("h", 1, "u", "p@", "d", True)),
    ("clickhouse://h/d?secure=yes&cluster=main", ClickHouseAddress("h", 8443, "default", "", "d", True, "main")),
])  # fmt: skip
def test_address_is_parsed(url: str, expected: ClickHouseAddress) -> None:
    assert parse_clickhouse_url(url) == expected


@pytest.mark.parametrize("url", [
    "http://host", "clickhouse://", "clickhouse://h:port/d", "clickhouse://h/d;drop", "clickhouse://h/d?cluster='",
    "clickhouse://h/d?speed=1",
])  # fmt: skip
def test_invalid_address_is_refused_without_showing_its_password(url: str, main: Database, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="COPYDESK_ANALYTICS_URL") as refused:
        open_store(read_settings(data=tmp_path, analytics_url=url.replace("://", "://u:hidden@")), main)
    assert "hidden" not in str(refused.value)


def test_the_settings_do_not_show_the_password(tmp_path: Path) -> None:
    settings: Any = read_settings(data=tmp_path, analytics_url="clickhouse://u:hidden@h/d")
    assert "hidden" not in repr(settings)
