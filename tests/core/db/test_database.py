"""One layer on both engines: migrations run once, signals cross processes, a newer schema is refused."""

import multiprocessing
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from copydesk.core.db.database import Database
from copydesk.core.db.migrate import SCHEMA_VERSION, NewerSchema, migrate
from copydesk.core.errors import StoreUnavailable


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()


def _notify(url: str) -> None:
    database = Database(url)
    with database.write() as tx:
        tx.execute(text("insert into limits (bucket, started_at, used) values ('x', 1, 1)"))
        database.notify(tx, "queue")
    database.close()


def test_two_processes_that_start_at_once_migrate_once(database_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    starting = [context.Process(target=_migrate, args=(database_url,)) for _ in range(2)]
    for process in starting:
        process.start()
    for process in starting:
        process.join()
    assert [process.exitcode for process in starting] == [0, 0]
    database = Database(database_url)
    with database.read() as tx:
        assert tx.execute(text("select version_num from alembic_version")).scalars().all() == [SCHEMA_VERSION]
    database.close()


def test_a_newer_schema_is_refused_with_a_clear_message(database_url: str) -> None:
    database = Database(database_url)
    migrate(database)
    with database.write() as tx:
        tx.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(NewerSchema, match="newer version"):
        migrate(database)
    database.close()


@pytest.mark.deep
def test_a_signal_wakes_a_waiter_in_another_process(database_url: str) -> None:
    _migrate(database_url)
    database = Database(database_url)
    mark = database.notifications.mark("queue")
    sender = multiprocessing.get_context("spawn").Process(target=_notify, args=(database_url,))
    sender.start()
    deadline = time.monotonic() + 60
    heard = False
    while not heard and time.monotonic() < deadline:
        heard = database.notifications.wait("queue", mark, 1)
    sender.join()
    database.close()
    assert heard


def test_a_signal_that_is_rolled_back_is_not_sent(database_url: str) -> None:
    database = Database(database_url)
    migrate(database)
    _wait_until_signals_are_heard(database)
    mark = database.notifications.mark("queue")
    with pytest.raises(ZeroDivisionError), database.write() as tx:
        database.notify(tx, "queue")
        raise ZeroDivisionError
    assert not database.notifications.wait("queue", mark, 0.2)
    with database.write() as tx:
        database.notify(tx, "queue")
    assert database.notifications.wait("queue", mark, 60)
    database.close()


def _wait_until_signals_are_heard(database: Database) -> None:
    """Sends signals until the listener receives one, and then waits until none is in flight."""
    deadline = time.monotonic() + 60
    mark = database.notifications.mark("queue")
    while not database.notifications.wait("queue", mark, 0.1):
        assert time.monotonic() < deadline, "no signal is heard"
        with database.write() as tx:
            database.notify(tx, "queue")
    while database.notifications.wait("queue", database.notifications.mark("queue"), 0.1):
        assert time.monotonic() < deadline, "signals do not end"


def test_writers_of_one_process_wait_for_each_other(database_url: str) -> None:
    database = Database(database_url)
    migrate(database)
    with database.write() as tx:
        tx.execute(text("insert into limits (bucket, started_at, used) values ('x', 1, 0)"))

    def add() -> None:
        for _ in range(25):
            with database.write() as tx:
                tx.execute(text("update limits set used = used + 1 where bucket = 'x'"))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as tx:
        assert tx.execute(text("select used from limits where bucket = 'x'")).scalar_one() == 200
    database.close()


def test_unreachable_database_raises_store_down() -> None:
    database = Database("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(StoreUnavailable), database.read() as tx:
        tx.execute(text("select 1"))
    database.close()


@pytest.mark.deep
def test_failed_writer_rolls_back_only_itself_and_writers_return_after_commit(
    database_url: str,
) -> None:
    database, onlooker = Database(database_url), Database(database_url)
    migrate(database)
    wrong: list[str] = []

    def add(number: int) -> None:
        for turn in range(10):
            bucket = f"{number}-{turn}"
            try:
                with database.write() as tx:
                    tx.execute(text("insert into limits (bucket, started_at, used) values (:b, 1, 0)"), {"b": bucket})
                    if (number + turn) % 3 == 0:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            with onlooker.read() as tx:
                found = tx.execute(text("select 1 from limits where bucket = :b"), {"b": bucket}).first()
            if (found is None) != ((number + turn) % 3 == 0):
                wrong.append(bucket)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()
    onlooker.close()
    assert wrong == []


def test_failed_group_commit_fails_every_writer_in_it(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'copydesk.db'}")
    migrate(database)
    with database.write() as tx:
        tx.execute(text("create table parent (id integer primary key)"))
        tx.execute(text("create table child (id integer references parent (id) deferrable initially deferred)"))
    first_is_in, second_comes, outcomes = threading.Event(), threading.Event(), []

    def write(statement: str, hold: bool) -> None:
        if not hold:
            second_comes.set()
        try:
            with database.write() as tx:
                tx.execute(text(statement))
                if hold:
                    first_is_in.set()
                    second_comes.wait()
                    time.sleep(0.3)
            outcomes.append("committed")
        except IntegrityError:
            outcomes.append("refused")

    sound = threading.Thread(target=write, args=("insert into parent values (1)", True))
    sound.start()
    first_is_in.wait()
    unsound = threading.Thread(target=write, args=("insert into child values (99)", False))
    unsound.start()
    sound.join()
    unsound.join()
    assert outcomes == ["refused", "refused"]
    with database.write() as tx:
        assert tx.execute(text("select count(*) from parent")).scalar_one() == 0
    database.close()


def test_writers_in_a_group_commit_fail_alone_and_signal_only_after_it(tmp_path: Path) -> None:
    """The first writer has written and notified, but the second, which fails, still holds their commit open."""
    database = Database(f"sqlite:///{tmp_path / 'copydesk.db'}")
    migrate(database)
    mark = database.notifications.mark("queue")
    first_is_in, second_comes, second_is_in, second_may_end = (threading.Event() for _ in range(4))
    row = text("insert into limits (bucket, started_at, used) values ('a', 1, 1)")

    def write_first() -> None:
        with database.write() as tx:
            tx.execute(row)
            database.notify(tx, "queue")
            first_is_in.set()
            second_comes.wait()
            time.sleep(0.3)  # until the second waits for its turn

    def write_second() -> None:
        second_comes.set()
        with pytest.raises(IntegrityError), database.write() as tx:
            second_is_in.set()
            second_may_end.wait()
            tx.execute(row)

    def count_rows() -> int:
        with database.read() as tx:
            return int(tx.execute(text("select count(*) from limits")).scalar_one())

    threads = [threading.Thread(target=write_first), threading.Thread(target=write_second)]
    threads[0].start()
    first_is_in.wait()
    threads[1].start()
    second_is_in.wait()
    assert threads[0].is_alive(), "no writer returns before the commit"
    assert (count_rows(), database.notifications.wait("queue", mark, 0)) == (0, False)
    second_may_end.set()
    for thread in threads:
        thread.join()
    assert (count_rows(), database.notifications.wait("queue", mark, 60)) == (1, True)
    database.close()


def test_full_disk_loses_no_committed_data(tmp_path: Path) -> None:
    """SQLite rolls back the complete transaction, including the writes of others in it."""
    database = Database(f"sqlite:///{tmp_path / 'copydesk.db'}")
    with database.write() as tx:
        tx.exec_driver_sql("create table t (who text, data blob)")
    with database.write() as tx:
        tx.exec_driver_sql("pragma max_page_count = 20")
    told: dict[str, str] = {}
    inside = threading.Event()

    def write(who: str, size: int) -> str:
        with database.write() as tx:
            tx.exec_driver_sql("insert into t values (?, zeroblob(?))", (who, size))
            inside.set()
            time.sleep(0.2)
        return who

    def alone(who: str, size: int) -> None:
        with suppress(StoreUnavailable):
            told[who] = write(who, size)

    small = threading.Thread(target=alone, args=("small", 1))
    small.start()
    inside.wait()
    big = threading.Thread(target=alone, args=("big", 200_000))
    big.start()
    small.join()
    big.join()
    assert write("after", 1) == "after", "it goes on"
    with database.read() as tx:
        assert set(tx.exec_driver_sql("select who from t").scalars()) == {*told, "after"}
    database.close()


def test_database_locked_by_another_process_raises_store_down(tmp_path: Path) -> None:
    path = tmp_path / "copydesk.db"
    database = Database(f"sqlite:///{path}")
    with database.write() as tx:
        tx.exec_driver_sql("create table t (a)")
        tx.exec_driver_sql("pragma busy_timeout = 100")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin immediate")
    with pytest.raises(StoreUnavailable), database.write() as tx:
        tx.exec_driver_sql("insert into t values (1)")
    holder.close()
    with database.write() as tx:
        tx.exec_driver_sql("insert into t values (2)")
    database.close()
