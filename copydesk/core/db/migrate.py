"""Brings the database to this version's schema. Runs at every start; costs one look-up when there is nothing to do."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from copydesk.core.db.advisory_locks import AdvisoryLock, take_lock
from copydesk.core.db.database import Database
from copydesk.core.errors import Explained

HEAD = "0003"
UNFINISHED = "moving"
"""Stands for the version while a database is filled in several steps, so that nobody takes half of it for the whole."""
FOLDER = Path(__file__).parent / "migrations"


class NewerSchema(Explained):
    message = "The database was written by a newer version of Copydesk; upgrade this one."


class UnfinishedMove(Explained):
    message = "This database is incomplete: run the interrupted 'copydesk migrate-stores' or 'copydesk restore' again."


def migrate(database: Database) -> None:
    with database.read() as tx:
        if schema_of(tx) == HEAD:
            return
    with database.write() as tx, database.unhurried(tx):
        take_lock(database, tx, AdvisoryLock.MIGRATE_DATABASE)
        bring_up(tx)


def bring_up(tx: Connection, to: str = HEAD) -> None:
    """To this version of the schema, from nothing or an older one."""
    version = schema_of(tx)
    if version != to:
        refuse_newer(version)
        _upgrade(tx, to)


def refuse_newer(version: str | None) -> None:
    if version == UNFINISHED:
        raise UnfinishedMove
    if version is not None and version not in versions():
        raise NewerSchema


def versions() -> list[str]:
    """All that this release knows, oldest first."""
    return sorted(file.stem.removeprefix("v") for file in (FOLDER / "versions").glob("v*.py"))


def schema_of(tx: Connection) -> str | None:
    """The version that the database is at; None when there are no tables yet."""
    if not inspect(tx).has_table("alembic_version"):
        return None
    version: str | None = tx.execute(text("select version_num from alembic_version")).scalar()
    return version


def _upgrade(tx: Connection, to: str) -> None:
    from alembic import command  # heavy, and needed only when there is something to do
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.attributes["connection"] = tx
    command.upgrade(config, to)
