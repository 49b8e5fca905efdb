"""Brings the database to this version's schema. Runs at every start; costs one look-up when there is nothing to do."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from copydesk.core.database import Database
from copydesk.core.errors import Explained

HEAD = "0001"
LOCK = 7264_1001
FOLDER = Path(__file__).parent / "migrations"


class NewerSchema(Explained):
    """The database was written by a newer version of Copydesk; upgrade this one."""


def migrate(database: Database) -> None:
    with database.read() as tx:
        if _version(tx) == HEAD:
            return
    with database.write() as tx:
        if not database.is_sqlite:
            tx.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        version = _version(tx)
        if version != HEAD:
            if version is not None and not (FOLDER / "versions" / f"v{version}.py").exists():
                raise NewerSchema(str(NewerSchema.__doc__))
            _upgrade(tx)


def _version(tx: Connection) -> str | None:
    if not inspect(tx).has_table("alembic_version"):
        return None
    version: str | None = tx.execute(text("select version_num from alembic_version")).scalar()
    return version


def _upgrade(tx: Connection) -> None:
    from alembic import command  # heavy, and needed only when there is something to do
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.attributes["connection"] = tx
    command.upgrade(config, "head")
