"""Migrated databases: copies of one template, which is faster than migrating each."""

import tempfile
from functools import cache
from pathlib import Path

from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from tests.support import postgres

FILE = "copydesk.db"


def new_database(kind: str, folder: Path) -> str:
    """Creates a database and returns its URL; a SQLite file lies in this folder."""
    return new_sqlite(folder) if kind == "sqlite" else postgres.new_database(template=_template())


def new_sqlite(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_bytes(_sqlite())
    return f"sqlite:///{folder / FILE}"


@cache
def _sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        _migrate(f"sqlite:///{folder}/{FILE}")
        return Path(folder, FILE).read_bytes()


@cache
def _template() -> str:
    url = postgres.new_database()
    _migrate(url)
    return postgres.name_of(url)


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()
