"""Exports a day's raw views or a report as a file, which DuckDB writes itself."""

from collections.abc import Sequence
from pathlib import Path

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.reports import find_project
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.export_format import ExportDay, ExportFormat, build_duckdb_select

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
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), "day": day}
        [(row_count,)] = connection.execute(statement, params).fetchall()
    return int(row_count)
