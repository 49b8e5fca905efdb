"""Exports a day's raw views or a report as a file, which ClickHouse formats and this process stores."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from urllib3.exceptions import HTTPError

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.errors import translate_error
from copydesk.analytics.stores.clickhouse.connection.node import LONG_TIMEOUT_SECONDS
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches
from copydesk.analytics.stores.clickhouse.sql_files import load_sql
from copydesk.analytics.stores.export_format import ExportDay, ExportFormat, build_clickhouse_select

FORMAT_NAMES = {
    ExportFormat.PARQUET: "Parquet",
    ExportFormat.CSV: "CSVWithNames",
    ExportFormat.JSONL: "JSONEachRow",
}
EXPORT_SETTINGS = {
    "wait_end_of_query": "1",
    "output_format_parquet_compression_method": "zstd",
    "output_format_parquet_row_group_size": 122_880,
    "output_format_parquet_string_as_string": 1,
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_escape_forward_slashes": 0,
    "format_csv_null_representation": "",
}
"""ClickHouse answers once the query has succeeded, and keeps the result on its disk until then. Otherwise an error in
the middle would be text in the file. The answer then also says how many rows it has."""
SUMMARY_HEADER = "X-ClickHouse-Summary"
BUFFER_BYTES = 1 << 20


def find_export_range(cluster: Cluster, project_id: str) -> DayRange | None:
    [(first, end, row_count)] = cluster.reader.query(
        load_sql("export_bounds"), {"project": project_id}, LONG_TIMEOUT_SECONDS
    )
    return DayRange(first, end) if row_count else None


def list_export_days(cluster: Cluster, batches: ViewBatches, project_id: str, days: DayRange) -> Sequence[ExportDay]:
    params = {"project": project_id, "first": days.first, "end": days.end, "ai": batches.read_ai_mask(project_id)}
    rows = cluster.reader.query(load_sql("export_days"), params, LONG_TIMEOUT_SECONDS)
    return [ExportDay(day, raw, reports, bool(is_complete)) for day, raw, reports, is_complete in rows]


def export_day(
    cluster: Cluster,
    batches: ViewBatches,
    project_id: str,
    dataset: str,
    day: int,
    file_format: ExportFormat,
    target: Path,
) -> int:
    """Writes the file and returns its number of rows. Holds only a part of it in memory."""
    query = build_clickhouse_select(dataset, file_format, load_sql(f"export_{dataset}"))
    params = {"project": project_id, "day": day, "ai": batches.read_ai_mask(project_id)}
    response = cluster.reader.stream(query, params, EXPORT_SETTINGS, FORMAT_NAMES[file_format])
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        try:
            while chunk := response.read(BUFFER_BYTES):
                file.write(chunk)
        except HTTPError as error:
            raise translate_error(error) from error
        finally:
            response.close()
    return int(json.loads(response.headers[SUMMARY_HEADER])["result_rows"])
