"""The database is opened again after a fatal error, and one of a newer version is refused."""

import threading
import time
from pathlib import Path

import duckdb
import pytest

from copydesk.analytics.stores.duckdb.database import DUCKDB_SCHEMA_VERSION, DuckDatabase
from copydesk.analytics.stores.errors import StoreSchemaNewer
from copydesk.core.errors import StoreUnavailable

LONG_QUERY = "select count(*) from range(10_000) as a, range(8_000) as b where hash(a.range, b.range) % 7 = 3"
"""Takes about a second."""


@pytest.mark.parametrize("fails", [False, True], ids=["the report succeeds", "the report fails"])
@pytest.mark.deep
def test_fatal_error_during_a_report_of_another_thread_leaves_a_usable_database(tmp_path: Path, fails: bool) -> None:
    database = DuckDatabase(tmp_path / "a.duckdb")
    has_begun = threading.Event()
    errors: list[Exception] = []

    def report() -> None:
        try:
            with database.read() as connection:
                has_begun.set()
                connection.execute(LONG_QUERY).fetchall()
                if fails:
                    raise RuntimeError("not an error of DuckDB")
        except Exception as error:
            errors.append(error)

    reader = threading.Thread(target=report)
    reader.start()
    has_begun.wait()
    time.sleep(0.2)
    with pytest.raises(StoreUnavailable), database.read():
        raise duckdb.FatalException("FATAL Error: made by the test")
    for _ in range(2):
        with database.write() as connection:
            assert connection.execute("select count(*) from marks").fetchall()
    reader.join()
    assert [type(error) for error in errors] == ([RuntimeError] if fails else [])
    for _ in range(3):
        with database.read() as connection:
            assert connection.execute("select 1").fetchall() == [(1,)]
    database.close()
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        assert connection.execute("select value from marks where name = 'schema'").fetchall()


def set_schema_version(path: Path, version: int) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("update marks set value = $version where name = 'schema'", {"version": version})


@pytest.mark.deep
def test_database_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    DuckDatabase(path).close()
    set_schema_version(path, DUCKDB_SCHEMA_VERSION + 1)
    before = path.read_bytes()
    with pytest.raises(StoreSchemaNewer, match="newer version"):
        DuckDatabase(path)
    assert path.read_bytes() == before
    set_schema_version(path, DUCKDB_SCHEMA_VERSION)
    DuckDatabase(path).close()
