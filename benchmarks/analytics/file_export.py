"""python -m benchmarks.analytics.file_export: measures `copydesk analytics export` on the embedded store."""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.analytics.traffic import FIRST_DAY, PROJECT, generate_days
from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.export_format import EXPORT_COLUMNS, RAW_DATASET, ExportFormat
from copydesk.transfer.export.run import ExportRequest, export_project
from copydesk.transfer.progress import SilentProgress

T = TypeVar("T")
BATCH_VIEWS = 5_000
YEAR_VIEWS = 1_000_000


@dataclass(frozen=True)
class FileExportMeasurement:
    rows: int
    files: int
    size: int
    cpu: float
    """CPU seconds, also for checksums and syncing."""
    wall: float
    memory: float
    """Peak resident megabytes of the process."""


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.file_export", description="Measures exports into files."
    ).parse_args()
    reports = [name for name in EXPORT_COLUMNS if name != RAW_DATASET]
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as name:
        folder = Path(name)
        _run_in_process(_fill_store, folder / "year", YEAR_VIEWS, 365)
        print("| export | files | rows | rows per CPU s | CPU s | wall s | bytes per row | memory, MB |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for file_format in ExportFormat:
            target = folder / file_format
            _print_row(f"raw views of a year, {file_format}", folder / "year", target, [RAW_DATASET], file_format)
        target = folder / ExportFormat.PARQUET
        _print_row("the same again, nothing changed", folder / "year", target, [RAW_DATASET], ExportFormat.PARQUET)
        _print_row(
            "all reports of the year, parquet", folder / "year", folder / "reports", reports, ExportFormat.PARQUET
        )
        for views in (100_000, 1_000_000):
            data = folder / f"day-{views}"
            _run_in_process(_fill_store, data, views, 1)
            for file_format in ExportFormat:
                target = folder / f"day-{views}-{file_format}"
                _print_row(f"{views:,} raw views of a day, {file_format}", data, target, [RAW_DATASET], file_format)


def _print_row(label: str, data: Path, target: Path, datasets: list[str], file_format: ExportFormat) -> None:
    result = _run_in_process(_measure_export, data, target, datasets, file_format)
    per_cpu_second = f"{result.rows / result.cpu:,.0f}" if result.rows else ""
    size = f"{result.size / result.rows:.1f}" if result.rows else ""
    print(
        f"| {label} | {result.files:,} | {result.rows:,} | {per_cpu_second} | {result.cpu:.2f} | {result.wall:.2f} "
        f"| {size} | {result.memory:.0f} |",
        flush=True,
    )


def _fill_store(data: Path, views: int, days: int) -> None:
    data.mkdir()
    store = DuckStore(data / "analytics.duckdb")
    for day in generate_days(views, range(FIRST_DAY, FIRST_DAY + days)):
        for start in range(0, len(day), BATCH_VIEWS):
            store.log_views(day[start : start + BATCH_VIEWS])
    store.fold()
    store.close()


def _measure_export(data: Path, target: Path, datasets: list[str], file_format: ExportFormat) -> FileExportMeasurement:
    store = DuckStore(data / "analytics.duckdb")
    began, cpu_began = time.perf_counter(), time.process_time()
    result = export_project(store, ExportRequest(PROJECT, datasets, file_format, ALL_DAYS), target, SilentProgress())
    cpu, wall = time.process_time() - cpu_began, time.perf_counter() - began
    store.close()
    return FileExportMeasurement(
        rows=sum(entry.rows for entry in result.written),
        files=len(result.written),
        size=sum(entry.bytes for entry in result.written),
        cpu=cpu,
        wall=wall,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    )


def _run_in_process(act: Callable[..., T], *arguments: object) -> T:
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(act, arguments)


if __name__ == "__main__":
    main()
