"""Migrations of the database schema. They run at every start, and cost one query if there is nothing to do."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from copydesk.core.db.advisory_locks import AdvisoryLock, acquire_lock
from copydesk.core.db.database import Database
from copydesk.core.errors import UserFacingError

SCHEMA_VERSION = "0001"
UNFINISHED_VERSION = "moving"
"""Stored as the version while a database is filled in several steps, so that an incomplete database is not used."""
MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"


class NewerSchema(UserFacingError):
    message = "The database was written by a newer version of Copydesk; upgrade this one."


class UnfinishedMove(UserFacingError):
    message = "This database is incomplete: run the interrupted 'copydesk migrate-stores' or 'copydesk restore' again."


def migrate(database: Database) -> None:
    with database.read() as tx:
        if read_schema_version(tx) == SCHEMA_VERSION:
            return
    with database.write() as tx, database.without_statement_timeout(tx):
        acquire_lock(database, tx, AdvisoryLock.MIGRATE_DATABASE)
        upgrade_schema(tx)


def upgrade_schema(tx: Connection) -> None:
    """Creates all tables in an empty database, or runs the migrations that it lacks."""
    version = read_schema_version(tx)
    if version != SCHEMA_VERSION:
        reject_newer_schema(version)
        _run_migrations(tx)


def reject_newer_schema(version: str | None) -> None:
    if version == UNFINISHED_VERSION:
        raise UnfinishedMove
    if version is not None and version not in list_schema_versions():
        raise NewerSchema


def list_schema_versions() -> list[str]:
    """Returns all versions that this release knows, oldest first."""
    return sorted(file.stem.removeprefix("v") for file in (MIGRATIONS_FOLDER / "versions").glob("v*.py"))


def read_schema_version(tx: Connection) -> str | None:
    """Returns the schema version of the database, or None if it has no tables yet."""
    if not inspect(tx).has_table("alembic_version"):
        return None
    version: str | None = tx.execute(text("select version_num from alembic_version")).scalar()
    return version


def _run_migrations(tx: Connection) -> None:
    from alembic import command  # slow to import, and rarely needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    config.attributes["connection"] = tx
    command.upgrade(config, SCHEMA_VERSION)
