"""Copies of analytics stores in a backup: reads their contents, and helps to restore that of an embedded store."""

import json
import zipfile
from pathlib import Path
from typing import Literal

from copydesk.analytics.stores.duckdb.metadata_blocks import get_copy_path
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.transfer.backup.manifest import BackupDamaged, checksum_file

AnalyticsEngine = Literal["duckdb", "clickhouse"]
COPY_FILES: dict[AnalyticsEngine, str] = {"duckdb": DUCKDB_FILE, "clickhouse": "analytics.zip"}


def inspect_copy(engine: AnalyticsEngine, copy: Path) -> tuple[int, dict[str, int]]:
    """Returns the schema version and the row count of each table. ClickHouse copies do not record row counts."""
    return inspect_duckdb_file(copy) if engine == "duckdb" else (_read_archive_schema(copy), {})


def _read_archive_schema(copy: Path) -> int:
    """Returns the schema version of a ClickHouse copy. Raises BackupDamaged unless the whole archive is readable."""
    try:
        with zipfile.ZipFile(copy) as archive:
            if (damaged_name := archive.testzip()) is not None:
                raise BackupDamaged(f"{copy} cannot be read: {damaged_name} is damaged.")
            return int(json.loads(archive.read("agreed.json"))["schema"])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise BackupDamaged(f"{copy} cannot be read: {error}.") from None


def inspect_duckdb_file(path: Path) -> tuple[int, dict[str, int]]:
    """Returns the schema version and the row count of each table. No other process may have the file open."""
    import duckdb

    from copydesk.analytics.stores.duckdb.database import read_schema_version

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            names = [name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()]
            counts = {}
            for name in sorted(names):
                [(counts[name],)] = connection.execute("select count(*) from query_table($1)", [name]).fetchall()
            if "visit_runs" in counts:
                [(filed_visits,)] = connection.execute("select coalesce(sum(rows), 0) from visit_runs").fetchall()
                counts["visits"] += int(filed_visits)
            return read_schema_version(connection) or 0, counts
    except duckdb.Error as error:
        raise BackupDamaged(f"{path} cannot be read: {error}.") from None


def count_views(folder: Path) -> int:
    """Returns the number of views and visits in the folder's store; 0 without a store."""
    path = folder / DUCKDB_FILE
    if not path.exists():
        return 0
    from copydesk.analytics.stores.duckdb.database import DuckDatabase

    database = DuckDatabase(path)  # opened for writing, to include the write-ahead log
    try:
        with database.read() as connection:
            [(count,)] = connection.execute(
                "select (select count(*) from views) + (select count(*) from visits)"
                " + (select coalesce(sum(rows), 0) from visit_runs)"
            ).fetchall()
        return int(count)
    finally:
        database.close()


def is_already_restored(folder: Path, copy: Path) -> bool:
    """Returns whether the copy is in place already and nothing was written since."""
    path = folder / DUCKDB_FILE
    if not path.exists() or (folder / f"{DUCKDB_FILE}.wal").exists() or path.stat().st_size != copy.stat().st_size:
        return False
    return checksum_file(path) == checksum_file(copy)


def delete_side_files(path: Path) -> None:
    """Deletes the write-ahead log of an old file, which DuckDB would apply to the new one, and the copy of its
    metadata."""
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    get_copy_path(path).unlink(missing_ok=True)
