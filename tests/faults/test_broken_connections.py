"""PostgreSQL connections that hang are closed in time, and replaced."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from copydesk.core.db import notifications as signals
from copydesk.core.db import postgres
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from copydesk.core.db.postgres import TimedConnection
from copydesk.core.errors import StoreUnavailable
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.web.operations.readiness import Readiness
from tests.crash.harness import wait_until
from tests.support.postgres import connect_to_server, new_database, url_through_port
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.deep

SHORT = 1.0


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
def proxy(url: str) -> Iterator[TcpProxy]:
    with tcp_proxy(partial(connect_to_server, url)) as proxy:
        yield proxy


@pytest.fixture
def database(url: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database behind the proxy, with short timeouts."""
    monkeypatch.setattr(TimedConnection, "reply_timeout", SHORT)
    monkeypatch.setattr(postgres, "PING_SECONDS", SHORT)
    monkeypatch.setattr(postgres, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(signals, "CHECK_SECONDS", SHORT)
    monkeypatch.setattr(signals, "LISTENER_TIMEOUT_SECONDS", SHORT)
    database = Database(url_through_port(url, proxy.port))
    yield database
    database.close()


def test_unanswered_statement_raises_store_down(database: Database, proxy: TcpProxy) -> None:
    with pytest.raises(StoreUnavailable), database.write() as tx:
        proxy.is_silent = True
        began = time.monotonic()
        tx.execute(text("select 1"))
    assert time.monotonic() - began < 60
    proxy.is_silent = False
    with database.read() as tx:
        assert tx.execute(text("select 2")).scalar() == 2


def test_silently_broken_connection_is_replaced_before_use(database: Database, proxy: TcpProxy) -> None:
    with database.read() as tx:
        tx.execute(text("select 1"))
    proxy.forget()
    with database.read() as tx:
        assert tx.execute(text("select 2")).scalar() == 2


@pytest.mark.drill
def test_silent_server_opens_the_circuit_breaker(database: Database, proxy: TcpProxy) -> None:
    proxy.is_silent = True
    with pytest.raises(StoreUnavailable), database.read():
        pass
    began = time.monotonic()
    for _ in range(20):
        with pytest.raises(StoreUnavailable), database.read():
            pass
    assert time.monotonic() - began < 1
    proxy.is_silent = False
    wait_until(lambda: _is_answering(database), "the server to be asked again", 10)


def test_signals_arrive_again_after_their_connection_broke(database: Database, proxy: TcpProxy, url: str) -> None:
    migrate(database)
    sender = Database(url)

    def is_heard() -> bool:
        mark = database.notifications.mark("queue")
        with sender.write() as tx:
            sender.notify(tx, "queue")
        return database.notifications.wait("queue", mark, 0.3)

    wait_until(is_heard, "a signal to be heard")
    proxy.forget()
    wait_until(lambda: not is_heard(), "the line to be dead")
    wait_until(is_heard, "a signal to be heard again")
    sender.close()


def test_read_only_server_is_left_for_the_new_primary(url: str, tmp_path: Path) -> None:
    """As after a failover, if a connection was opened while the name still pointed to the old primary."""
    desk = open_desk(Settings(data=tmp_path, database_url=url))
    try:
        with desk.database.engine.connect() as line:
            line.exec_driver_sql("set session characteristics as transaction read only")
            line.commit()
        with pytest.raises(StoreUnavailable):
            desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="ada")
        desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="ada")
    finally:
        desk.close()


def test_server_with_a_read_only_database_is_not_ready(url: str, tmp_path: Path) -> None:
    desk = open_desk(Settings(data=tmp_path, database_url=url))
    try:
        assert Readiness(desk, with_analytics=False).check().is_ready
        with desk.database.write() as tx:
            name = tx.execute(text("select current_database()")).scalar_one()
            tx.execute(text(f"alter database {name} set default_transaction_read_only = on"))
        desk.database.engine.dispose()
        told = Readiness(desk, with_analytics=False).check().parts["database"]
        assert told == "The database is read-only: it is a replica, or it was set to read-only."
    finally:
        desk.close()


def test_new_connection_that_does_not_answer_raises_store_down(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler that accepts logins while its server is unavailable."""

    def away(_line: object) -> bool:
        raise psycopg.OperationalError("the server is away")

    with monkeypatch.context() as patched:
        patched.setattr(database.engine.dialect, "do_ping", away)
        for _ in range(2):
            with pytest.raises(StoreUnavailable), database.read():
                pass
    assert _is_answering(database)


def test_migration_has_no_statement_timeout(database: Database) -> None:
    with database.write() as tx, database.without_statement_timeout(tx):
        tx.execute(text("select pg_sleep(:seconds)"), {"seconds": SHORT + 0.5})


def _is_answering(database: Database) -> bool:
    with suppress(StoreUnavailable), database.read() as tx:
        return tx.execute(text("select 1")).scalar() == 1
    return False
