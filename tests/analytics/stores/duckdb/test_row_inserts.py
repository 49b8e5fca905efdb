"""Rows are inserted by prepared statements from buffers, and arrive as given, however many they are."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.row_inserts import LONG_BUFFER_ROWS, SHORT_BUFFER_ROWS, RowInserts

Numbers = list[tuple[int, int]]
ROW_COUNTS = [0, 1, SHORT_BUFFER_ROWS, SHORT_BUFFER_ROWS + 1, LONG_BUFFER_ROWS, 2 * LONG_BUFFER_ROWS + 1]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[DuckDatabase]:
    database = DuckDatabase(tmp_path / "views.duckdb")
    with database.write() as connection:
        connection.execute("create table numbers (large bigint not null, small usmallint not null)")
    yield database
    database.close()


def insert(inserts: RowInserts, connection: DuckConnection, numbers: Numbers) -> None:
    large, small = zip(*numbers, strict=True) if numbers else ((), ())
    inserts.insert(connection, "numbers", {"large": np.array(large, np.int64), "small": np.array(small, np.uint16)})


def make_numbers(rows: int) -> Numbers:
    return [(-(2**62) + row, row % 65536) for row in range(rows)]


def read(database: DuckDatabase) -> Numbers:
    with database.read() as connection:
        return connection.execute("select large, small from numbers order by rowid").fetchall()


@pytest.mark.parametrize("rows", ROW_COUNTS)
def test_rows_arrive_in_their_order(database: DuckDatabase, rows: int) -> None:
    numbers = make_numbers(rows)
    with database.write() as connection:
        insert(RowInserts(), connection, numbers)
    assert read(database) == numbers


@pytest.mark.deep
def test_fewer_rows_after_more_leave_none_of_the_others(database: DuckDatabase) -> None:
    inserts = RowInserts()
    parts = [make_numbers(rows) for rows in (3, 1, 0, SHORT_BUFFER_ROWS + 9, 2, LONG_BUFFER_ROWS + 5, 4_000, 1)]
    for part in parts:
        with database.write(for_fold=True) as connection:
            insert(inserts, connection, part)
    assert read(database) == [row for part in parts for row in part]


def test_several_inserts_of_a_transaction_keep_their_order(database: DuckDatabase) -> None:
    inserts = RowInserts()
    parts = [make_numbers(rows) for rows in (1, 3_000, 1, 4_000, 2)]
    with database.write(for_fold=True) as connection:
        for part in parts:
            insert(inserts, connection, part)
    assert read(database) == [row for part in parts for row in part]


def test_column_that_could_lose_digits_in_the_buffer_is_refused(database: DuckDatabase) -> None:
    inserts = RowInserts()
    narrow, wide = np.array([1], np.int32), np.array([2**40], np.int64)
    small = np.array([1], np.uint16)
    with pytest.raises(TypeError), database.write(for_fold=True) as connection:
        inserts.insert(connection, "numbers", {"large": narrow, "small": small})
        inserts.insert(connection, "numbers", {"large": wide, "small": small})
    assert read(database) == []


def test_rows_of_several_connections_in_turn_are_inserted_once(database: DuckDatabase) -> None:
    inserts = RowInserts()
    for number in range(6):
        with database.write(for_fold=number % 2 == 0) as connection:
            insert(inserts, connection, [(number, number)])
    assert read(database) == [(number, number) for number in range(6)]


@pytest.mark.parametrize("failed_rows", [1, 3_000])
def test_rows_of_a_failed_transaction_are_not_inserted_later(database: DuckDatabase, failed_rows: int) -> None:
    inserts = RowInserts()
    for number in range(3):
        with pytest.raises(KeyError), database.write(for_fold=True) as connection:
            insert(inserts, connection, make_numbers(failed_rows))
            raise KeyError
        with database.write(for_fold=True) as connection:
            insert(inserts, connection, [(number, number)])
    assert read(database) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("rows", [1, 3_000])
def test_rows_are_inserted_after_the_table_was_replaced(database: DuckDatabase, rows: int) -> None:
    inserts = RowInserts()
    for _ in range(3):
        with database.write(for_fold=True) as connection:
            insert(inserts, connection, make_numbers(rows))
        with database.write() as connection:
            connection.execute("create or replace table numbers as from numbers")
    assert read(database) == make_numbers(rows) * 3


def test_folds_keep_their_connection_and_others_never_get_it(database: DuckDatabase) -> None:
    with database.write(for_fold=True) as first:
        pass
    with database.write() as other, database.read() as third:
        assert first is not other
        assert first is not third
    with database.write(for_fold=True) as second:
        assert second is first
