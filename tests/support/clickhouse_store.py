"""A store on ClickHouse in a folder, as the embedded one is: with a main database of its own there."""

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
"""Databases of ClickHouse by their address, and whose they are: making one takes longer than most tests do."""


class OnClickHouse(ClickHouseStore):
    """The folder remembers which database of ClickHouse is its; a copy that lies there is loaded into a new one."""

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
        """The connections stay for the next."""
        self.main.close()


def main_database(folder: Path, kind: str = "sqlite") -> Database:
    """In the folder too, or where it remembers."""
    named = folder / "main.url"
    if not named.exists():
        named.write_text(migrated.new_database(kind, folder))
    return Database(named.read_text())


def _fresh(folder: Path) -> str:
    """That of a folder that is gone, emptied, or a new one."""
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
