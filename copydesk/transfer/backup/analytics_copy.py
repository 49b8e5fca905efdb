"""Copies of analytics stores: what one holds, by engine, and how that of the embedded one takes its place."""

import json
import zipfile
from pathlib import Path
from typing import Literal

from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.transfer.backup.manifest import BackupDamaged, checksum_file

AnalyticsEngine = Literal["duckdb", "clickhouse"]
COPY_FILES: dict[AnalyticsEngine, str] = {"duckdb": DUCKDB_FILE, "clickhouse": "analytics.zip"}


def inspect_copy(engine: AnalyticsEngine, copy: Path) -> tuple[int, dict[str, int]]:
    """The schema's number, and the rows in each table where the copy tells them."""
    return inspect_duckdb_file(copy) if engine == "duckdb" else (_read_archive_schema(copy), {})


def _read_archive_schema(copy: Path) -> int:
    """The schema's number of a copy from ClickHouse, all of which can be read."""
    try:
        with zipfile.ZipFile(copy) as archive:
            if (damaged_name := archive.testzip()) is not None:
                raise BackupDamaged(f"{copy} cannot be read: {damaged_name} is not what was written.")
            return int(json.loads(archive.read("agreed.json"))["schema"])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise BackupDamaged(f"{copy} cannot be read: {error}.") from None


def inspect_duckdb_file(path: Path) -> tuple[int, dict[str, int]]:
    """The schema's number of a store that nobody has open, and the rows in each of its tables."""
    import duckdb

    from copydesk.analytics.stores.duckdb.database import read_schema_version

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            names = [name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()]
            counts = {}
            for name in sorted(names):
                [(counts[name],)] = connection.execute("select count(*) from query_table($1)", [name]).fetchall()
            return read_schema_version(connection) or 0, counts
    except duckdb.Error as error:
        raise BackupDamaged(f"{path} cannot be read: {error}.") from None


def count_views(folder: Path) -> int:
    """How many views and visits the folder's store holds; 0 without a store."""
    path = folder / DUCKDB_FILE
    if not path.exists():
        return 0
    from copydesk.analytics.stores.duckdb.database import DuckDatabase

    database = DuckDatabase(path)  # not only for reading: what its log holds belongs to it too
    try:
        with database.read() as connection:
            [(count,)] = connection.execute(
                "select (select count(*) from views) + (select count(*) from visits)"
            ).fetchall()
        return int(count)
    finally:
        database.close()


def is_already_restored(folder: Path, copy: Path) -> bool:
    """Whether the copy has taken its place before, and nothing came since."""
    path = folder / DUCKDB_FILE
    if not path.exists() or (folder / f"{DUCKDB_FILE}.wal").exists() or path.stat().st_size != copy.stat().st_size:
        return False
    return checksum_file(path) == checksum_file(copy)


def delete_write_ahead_log(path: Path) -> None:
    """The log of an old file would be read into the new one."""
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
