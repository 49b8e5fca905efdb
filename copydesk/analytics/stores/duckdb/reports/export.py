"""Exports a day's raw views or a report as a file, which DuckDB writes itself."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from copydesk.analytics.stores.base import TOP_SECTIONS, DayRange
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.reports.section_reports import list_sections
from copydesk.analytics.stores.duckdb.reports.site_reports import find_project
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.export_format import (
    SECTIONS_DATASET,
    ExportDay,
    ExportFormat,
    build_duckdb_select,
)

FORMAT_OPTIONS = {
    ExportFormat.PARQUET: "format parquet, compression zstd",
    ExportFormat.CSV: "format csv, header",
    ExportFormat.JSONL: "format json",
}


def find_export_range(database: DuckDatabase, project_id: str) -> DayRange | None:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id)}
        [(first, end)] = connection.execute(load_sql("export_bounds"), params).fetchall()
    return None if first is None else DayRange(first, end)


def list_export_days(database: DuckDatabase, project_id: str, days: DayRange) -> Sequence[ExportDay]:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), "first": days.first, "end": days.end}
        return [ExportDay(*row) for row in connection.execute(load_sql("export_days"), params).fetchall()]


def export_day(
    database: DuckDatabase, project_id: str, dataset: str, day: int, file_format: ExportFormat, target: Path
) -> int:
    """Writes the file and returns its number of rows.

    Quotes the name of the file, because DuckDB does not bind it as a parameter.
    """
    query = build_duckdb_select(dataset, file_format, load_sql(f"export_{dataset}"))
    quoted_target = str(target).replace("'", "''")
    statement = f"copy ({query}) to '{quoted_target}' ({FORMAT_OPTIONS[file_format]}, use_tmp_file false)"
    sections = _list_section_columns(database, project_id, day) if dataset == SECTIONS_DATASET else None
    with database.read() as connection:
        params = sections or {"project": find_project(connection, project_id)}
        [(row_count,)] = connection.execute(statement, {**params, "day": day}).fetchall()
    return int(row_count)


def _list_section_columns(database: DuckDatabase, project_id: str, day: int) -> dict[str, Any]:
    """Returns the columns of the sections of a day."""
    report, _ = list_sections(database, project_id, DayRange(day, day + 1), sys.maxsize, 0, TOP_SECTIONS)
    rows = report.rows
    return {
        "sections": [row.section for row in rows],
        "human": [row.count.human for row in rows],
        "ai": [row.count.ai for row in rows],
        "total": [row.count.total for row in rows],
        "views": [row.views for row in rows],
    }
