"""Copies of analytics stores: what one holds, by engine, and how that of the embedded one takes its place."""

import json
import zipfile
from pathlib import Path
from typing import Literal

from copydesk.analytics.stores.shared.server import FILE
from copydesk.transfer.backup.manifest import Damaged, part_of

Engine = Literal["duckdb", "clickhouse"]
FILES: dict[Engine, str] = {"duckdb": FILE, "clickhouse": "analytics.zip"}


def holds(engine: Engine, copy: Path) -> tuple[int, dict[str, int]]:
    """The schema's number, and the rows in each table where the copy tells them."""
    return rows_of(copy) if engine == "duckdb" else (_archived(copy), {})


def _archived(copy: Path) -> int:
    """The schema's number of a copy from ClickHouse, all of which can be read."""
    try:
        with zipfile.ZipFile(copy) as archive:
            if (harmed := archive.testzip()) is not None:
                raise Damaged(f"{copy} cannot be read: {harmed} is not what was written.")
            return int(json.loads(archive.read("agreed.json"))["schema"])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise Damaged(f"{copy} cannot be read: {error}.") from None


def rows_of(path: Path) -> tuple[int, dict[str, int]]:
    """The schema's number of a store that nobody has open, and the rows in each of its tables."""
    import duckdb

    from copydesk.analytics.stores.duckdb.database import schema_of

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            names = [name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()]
            counts = {}
            for name in sorted(names):
                [(counts[name],)] = connection.execute("select count(*) from query_table($1)", [name]).fetchall()
            return schema_of(connection) or 0, counts
    except duckdb.Error as error:
        raise Damaged(f"{path} cannot be read: {error}.") from None


def views_in(folder: Path) -> int:
    """How many views and visits the folder's store holds; 0 without a store."""
    path = folder / FILE
    if not path.exists():
        return 0
    from copydesk.analytics.stores.duckdb.database import Database

    database = Database(path)  # not only for reading: what its log holds belongs to it too
    try:
        with database.read() as connection:
            [(count,)] = connection.execute(
                "select (select count(*) from views) + (select count(*) from visits)"
            ).fetchall()
        return int(count)
    finally:
        database.close()


def is_same(folder: Path, copy: Path) -> bool:
    """Whether the copy has taken its place before, and nothing came since."""
    path = folder / FILE
    if not path.exists() or (folder / f"{FILE}.wal").exists() or path.stat().st_size != copy.stat().st_size:
        return False
    return part_of(path) == part_of(copy)


def make_way(place: Path) -> None:
    """The log of an old file would be read into the new one."""
    place.with_name(f"{place.name}.wal").unlink(missing_ok=True)
