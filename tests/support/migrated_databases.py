"""Migrated databases: copies of one template, which is faster than migrating each."""

import tempfile
from functools import cache
from pathlib import Path

from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from tests.support import postgres

SQLITE_FILE_NAME = "copydesk.db"


def new_database(kind: str, folder: Path) -> str:
    """Creates a database and returns its URL; a SQLite file lies in this folder."""
    return new_sqlite(folder) if kind == "sqlite" else postgres.new_database(template=_migrated_postgres_template())


def new_sqlite(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SQLITE_FILE_NAME).write_bytes(_migrated_sqlite_bytes())
    return f"sqlite:///{folder / SQLITE_FILE_NAME}"


@cache
def _migrated_sqlite_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        _migrate(f"sqlite:///{folder}/{SQLITE_FILE_NAME}")
        return Path(folder, SQLITE_FILE_NAME).read_bytes()


@cache
def _migrated_postgres_template() -> str:
    url = postgres.new_database(is_kept=True)
    _migrate(url)
    return postgres.database_name(url)


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()
