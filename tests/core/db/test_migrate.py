"""The first migration creates the declared tables. A newer database, and one that is filled in parts, is refused."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import Connection, Inspector, inspect, text

from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DUCKDB_SCHEMA_VERSION
from copydesk.analytics.stores.errors import StoreSchemaNewer
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import UNFINISHED_VERSION, NewerSchema, UnfinishedMove, migrate
from copydesk.transfer.row_codec import TABLES
from tests.support.postgres import new_database


def describe_table(there: Inspector, table: str) -> dict[str, Any]:
    """Describes everything that the engine knows of a table, in comparable form."""

    def sorted_by_name(found: Any) -> list[str]:
        return sorted(str(sorted(each.items(), key=str)) for each in found)

    columns = {
        column["name"]: (str(column["type"]), column["nullable"], column["default"])
        for column in there.get_columns(table)
    }
    return {
        "columns": columns,
        "primary key": str(there.get_pk_constraint(table)),
        "foreign keys": sorted_by_name(there.get_foreign_keys(table)),
        "unique": sorted_by_name(there.get_unique_constraints(table)),
        "checks": sorted_by_name(there.get_check_constraints(table)),
        "indexes": sorted_by_name(there.get_indexes(table)),
        "options": str(there.get_table_options(table)),
    }


def describe_tables(tx: Connection) -> dict[str, dict[str, Any]]:
    there = inspect(tx)
    return {table: describe_table(there, table) for table in there.get_table_names() if table != "alembic_version"}


def new_url(url: str, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'another.db'}" if url.startswith("sqlite") else new_database()


@pytest.mark.deep
def test_migrated_tables_equal_the_declared_tables(database_url: str, tmp_path: Path) -> None:
    migrated, declared = Database(database_url), Database(new_url(database_url, tmp_path))
    migrate(migrated)
    with declared.write() as tx:
        for table in TABLES.values():
            table.create(tx)
        wanted = describe_tables(tx)
    with migrated.read() as tx:
        found = describe_tables(tx)
    migrated.close()
    declared.close()
    assert {*found} == {*wanted}
    for name, facts in wanted.items():
        assert found[name] == facts


@pytest.mark.deep
def test_a_newer_analytics_store_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "analytics.duckdb"
    DuckStore(path).close()
    with duckdb.connect(str(path)) as file:
        file.execute("update marks set value = $1 where name = 'schema'", [DUCKDB_SCHEMA_VERSION + 1])
    with pytest.raises(StoreSchemaNewer, match="newer version"):
        DuckStore(path)
    with duckdb.connect(str(path)) as file:
        file.execute("update marks set value = $1 where name = 'schema'", [DUCKDB_SCHEMA_VERSION])
    DuckStore(path).close()


def test_database_of_an_unfinished_migration_is_not_served(database_url: str) -> None:
    database = Database(database_url)
    migrate(database)
    for version, refusal in ((UNFINISHED_VERSION, UnfinishedMove), ("9999", NewerSchema)):
        with database.write() as tx:
            tx.execute(text("update alembic_version set version_num = :version"), {"version": version})
        with pytest.raises(refusal):
            migrate(database)
    database.close()
