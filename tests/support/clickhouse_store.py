"""A ClickHouse store in a folder, like the embedded store, with its own main database there."""

from pathlib import Path

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url
from copydesk.core.db.database import Database
from tests.support import migrated
from tests.support.clickhouse import ask, new_database

FILE = "clickhouse.url"
_clusters: dict[str, Cluster] = {}
_folders: dict[str, Path] = {}
"""ClickHouse databases by URL, with the folder that uses each: creating one takes longer than most tests."""


class OnClickHouse(ClickHouseStore):
    """A store whose folder records its ClickHouse database; loads a backup in that folder into a new database."""

    def __init__(self, folder: Path, copied: Path | None = None, main: str = "sqlite") -> None:
        named = folder / FILE
        is_new = not named.exists()
        if is_new:
            named.write_text(_fresh(folder))
        self.main = main_database(folder, main)
        super().__init__(named.read_text(), self.main, _clusters[named.read_text()])
        if is_new and copied and copied.exists():
            self.restore(copied)

    def close(self) -> None:
        """Closes the main database; the ClickHouse connections stay open for the next store."""
        self.main.close()


def main_database(folder: Path, kind: str = "sqlite") -> Database:
    """Opens the main database that the folder records, or creates it there."""
    named = folder / "main.url"
    if not named.exists():
        named.write_text(migrated.new_database(kind, folder))
    return Database(named.read_text())


def _fresh(folder: Path) -> str:
    """Returns the emptied database of a deleted folder, or a new one."""
    url = next((url for url, owner in _folders.items() if not (owner / FILE).exists()), None)
    if url is None:
        url = new_database()
        _clusters[url] = Cluster(parse_clickhouse_url(url))
    else:
        database = url.rsplit("/", 1)[1]
        for table in ask(f"show tables from {database}").split():
            if table != "schema":
                ask(f"truncate table {database}.{table}")
    _folders[url] = folder
    return url
