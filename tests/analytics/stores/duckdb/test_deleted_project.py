"""Nothing of a deleted project is left in any table of the file, including tables that are added later."""

from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from copydesk.analytics.stores.base import SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes
from copydesk.analytics.stores.duckdb.sections import section_indexer
from copydesk.analytics.stores.errors import StoreFull
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

SELECT_TABLES = (
    "select table_name from information_schema.columns where column_name = $column and table_schema = 'main'"
)


def count_rows(file: Path, project: str) -> dict[str, int]:
    """Returns how many rows of each table belong to the project: by its number, its name, or a scope of its own."""
    with duckdb.connect(str(file), read_only=True) as connection:
        numbers = connection.execute("select id from projects where name = $name", {"name": project}).fetchall()
        counts = {"projects": len(numbers)}
        for column, condition in (
            ("project", "project not in (select id from projects where name <> $name)"),
            (
                "scope",
                "scope not in (select s.id from scopes s join projects p on p.id = s.project where name <> $name)",
            ),
        ):
            for (table,) in connection.execute(SELECT_TABLES, {"column": column}).fetchall():
                query = f"select count(*) from {table} where {condition}"
                [(rows,)] = connection.execute(query, {"name": project}).fetchall()
                counts[table] = counts.get(table, 0) + rows
    return counts


def leave_incomplete_section(store: DuckStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks for a section whose indexing fails; it would be tried again in some minutes."""
    log_and_fold(store, make_view("/a/b/c"), make_view("/a/b/d"))
    with monkeypatch.context() as patch:
        patch.setattr(section_indexer, "split_by_visitor", Mock(side_effect=StoreFull))
        store.list_sections("docs", query=SectionQuery("/a", 2))
        store.wait_for_sections()


@pytest.mark.deep
def test_deleted_project_leaves_no_row_in_any_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.duckdb"
    sizes = CopySizes(min_views=1, views_per_part=1)
    store = DuckStore(file, min_summed_views=1, min_indexed_views=0, min_views_of_day=1, copy_sizes=sizes)
    log_and_fold(store, make_view("/a", event=1, agent="Browser"), make_view("/b", project="other", event=2))
    log_and_fold(store, make_view("/b", MONDAY + 1, project="other"))
    store.wait_for_hours()
    leave_incomplete_section(store, monkeypatch)
    log_and_fold(
        store,
        make_view("/gone", event=4)._replace(status=404),
        make_view("/gone", project="other")._replace(status=404),
    )
    store.log_views([make_view("/late", event=3)])
    store.close()
    filled = count_rows(file, "docs")
    assert len(filled) >= 7
    assert [table for table, rows in filled.items() if not rows] == [], "log something for a new table"
    others = count_rows(file, "other")

    store = DuckStore(file)
    store.forget_project("docs")
    store.fold()
    store.close()
    assert set(count_rows(file, "docs").values()) == {0}
    assert count_rows(file, "other") == others
