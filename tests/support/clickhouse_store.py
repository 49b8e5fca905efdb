"""A ClickHouse store in a folder, like the embedded store, with its own main database there."""

from pathlib import Path

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url
from copydesk.core.db.database import Database
from tests.support import migrated_databases
from tests.support.clickhouse import new_database, run_query

URL_FILE_NAME = "clickhouse.url"
_clusters: dict[str, Cluster] = {}
_folders: dict[str, Path] = {}
"""ClickHouse databases by URL, with the folder that uses each: creating one takes longer than most tests."""


class FolderClickHouseStore(ClickHouseStore):
    """A store whose folder records its ClickHouse database; loads a backup in that folder into a new database."""

    def __init__(self, folder: Path, backup: Path | None = None, main: str = "sqlite") -> None:
        url_file = folder / URL_FILE_NAME
        is_new = not url_file.exists()
        if is_new:
            url_file.write_text(_take_empty_database(folder))
        self.main = main_database(folder, main)
        super().__init__(url_file.read_text(), self.main, _clusters[url_file.read_text()])
        if is_new and backup and backup.exists():
            self.restore(backup)

    def close(self) -> None:
        """Closes the main database; the ClickHouse connections stay open for the next store."""
        self.main.close()


def main_database(folder: Path, kind: str = "sqlite") -> Database:
    """Opens the main database that the folder records, or creates it there."""
    url_file = folder / "main.url"
    if not url_file.exists():
        url_file.write_text(migrated_databases.new_database(kind, folder))
    return Database(url_file.read_text())


def _take_empty_database(folder: Path) -> str:
    """Returns the emptied database of a deleted folder, or a new one."""
    url = next((url for url, owner in _folders.items() if not (owner / URL_FILE_NAME).exists()), None)
    if url is None:
        url = new_database()
        _clusters[url] = Cluster(parse_clickhouse_url(url))
    else:
        database = url.rsplit("/", 1)[1]
        for table in run_query(f"show tables from {database}").split():
            if table != "schema":
                run_query(f"truncate table {database}.{table}")
    _folders[url] = folder
    return url
