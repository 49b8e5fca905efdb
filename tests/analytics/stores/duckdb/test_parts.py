"""What only large stores use: the filter of events, names looked up anew, folds in several transactions, tidying."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import ALWAYS, Logged, Range
from copydesk.analytics.stores.duckdb import event_filter as filters
from copydesk.analytics.stores.duckdb import maintenance as upkeep
from copydesk.analytics.stores.duckdb.database import Database
from copydesk.analytics.stores.duckdb.event_filter import SMALLEST, Seen, over_all
from copydesk.analytics.stores.duckdb.fold import fold
from copydesk.analytics.stores.duckdb.reports import visitors
from copydesk.analytics.stores.duckdb.view_log import Log
from tests.analytics.stores.conformance.model import Model
from tests.analytics.stores.duckdb.writer import batch

RANGES = (ALWAYS, Range(20_460, 20_470), Range(20_480, 20_481))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "a.duckdb")
    yield opened
    opened.close()


@pytest.fixture
def model() -> Model:
    made = Model()
    for number in range(30):
        made.log(batch(number))
    made.fold()
    return made


def rows_of(database: Database, table: str) -> int:
    with database.read() as connection:
        return len(connection.execute("from query_table($table)", {"table": table}).fetchall())


def assert_exact(database: Database, model: Model) -> None:
    for days in RANGES:
        assert visitors(database, "docs", days, 50, 0) == model.visitors("docs", days, 50, 0)


@pytest.mark.parametrize("known", [0, 1000, SMALLEST, SMALLEST + 1])
def test_the_filter_never_denies_a_logged_event_and_rarely_doubts_a_new_one(database: Database, known: int) -> None:
    chance = random.Random(known)
    stored, added, new = ([chance.getrandbits(63) for _ in range(count)] for count in (known, 5_000, 20_000))
    with database.write() as connection:
        connection.execute("insert into events select 1, unnest($ids::bigint[])", {"ids": stored})
        seen = Seen(connection)
    assert seen.wants_making == (known > SMALLEST)
    if seen.wants_making:
        assert seen.doubtful(stored) == stored
        seen.begin_making()
        seen.doubtful(added)
        with database.read() as connection:
            made = over_all(connection)
        assert made is not None
        seen.replace(made)
    else:
        assert len(seen.doubtful(added)) < 10
    assert seen.doubtful(stored + added) == stored + added
    assert len(seen.doubtful(new)) < 10


def once(events: Iterable[int]) -> list[View]:
    [first, *_] = batch(0)
    return [first._replace(event=event << 30) for event in events]


def test_a_filter_that_is_full_makes_way_for_one_over_all(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "SMALLEST", 64)
    monkeypatch.setattr(filters, "PIECE", 10)
    log, events = Log(database), range(1, 2_001)
    for first in range(0, len(events), 100):
        some = once(events[first : first + 100])
        assert log.write(some) == Logged(100)
        assert log.write(some) == Logged(0, tuple(range(100)))
    again = Log(database)
    for _ in range(3):
        assert again.write(once(events)).accepted == 0
    log.close()
    again.close()


def test_folds_of_any_size_come_to_the_same(database: Database, model: Model) -> None:
    log = Log(database)
    for number in range(30):
        log.write(batch(number))
    assert sum(fold(database, log.last, most=37)) == 600
    assert_exact(database, model)


def test_pages_that_are_no_longer_remembered_are_found_again(database: Database, model: Model) -> None:
    log = Log(database, most_pages=2)
    for number in range(30):
        log.write(batch(number))
    assert sum(fold(database, log.last)) == 600
    assert_exact(database, model)


def test_tidying_leaves_fewer_rows_and_the_same_answers(database: Database, model: Model) -> None:
    log = Log(database)
    for number in range(30):
        log.write(batch(number))
        assert list(fold(database, log.last)) == [20]
    before = {table: rows_of(database, table) for table in ("firsts", "counts")}
    assert upkeep.tidy(database, least=0)
    assert not upkeep.tidy(database, least=0)
    assert all(rows_of(database, table) < rows for table, rows in before.items())
    assert_exact(database, model)
    upkeep.rebuild(database)
    assert_exact(database, model)
