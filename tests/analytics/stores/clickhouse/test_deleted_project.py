"""Nothing of a deleted project is left in any table of the database, including tables that are added later."""

from pathlib import Path

import pytest

from copydesk.analytics.stores.clickhouse.folding.apply_correction import CORRECTION_TABLES
from tests.analytics.stores.conformance.test_store import log_and_fold, make_view
from tests.support.clickhouse import run_query
from tests.support.clickhouse_store import URL_FILE_NAME, FolderClickHouseStore

pytestmark = pytest.mark.deep

SELECT_TABLES = "select table from system.columns where database = '{database}' and name = 'project'"
SHORT_LIVED_TABLES = {"staged", "inbox", *CORRECTION_TABLES}
"""Rows of finished folds and corrections stay in their partitions until these are dropped."""


def count_rows(folder: Path, project: str) -> dict[str, int]:
    """Returns how many rows of each table belong to the project."""
    database = (folder / URL_FILE_NAME).read_text().rsplit("/", 1)[1]
    tables = run_query(SELECT_TABLES.format(database=database)).split()
    return {
        table: int(run_query(f"select count() from {database}.{table} where project = '{project}'"))
        for table in tables
        if table not in SHORT_LIVED_TABLES
    }


def test_deleted_project_leaves_no_row_in_any_table(store: FolderClickHouseStore, tmp_path: Path) -> None:
    log_and_fold(store, make_view("/a", event=1, agent="Browser"), make_view("/b", project="other", event=2))
    missing = make_view("/gone", event=4)._replace(status=404)
    log_and_fold(store, missing, missing._replace(project="other", event=5))
    store.log_views([make_view("/late", event=3)])
    filled = count_rows(tmp_path, "docs")
    assert len(filled) >= 6
    assert [table for table, rows in filled.items() if not rows] == [], "log something for a new table"
    others = count_rows(tmp_path, "other")
    store.forget_project("docs")
    store.fold()
    assert set(count_rows(tmp_path, "docs").values()) == {0}
    assert count_rows(tmp_path, "other") == others
