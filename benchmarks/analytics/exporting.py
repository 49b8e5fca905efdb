"""python -m benchmarks.analytics.exporting [--large]: measures exports of reports over HTTP."""

import argparse
import http.client
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.analytics.collecting import serve_collector
from benchmarks.analytics.traffic import DAYS, FIRST_DAY, PROJECT, generate_days
from benchmarks.jobs.measure import measure_process_cpu, percentile
from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.core.settings import Settings
from copydesk.desk import open_desk

REPEATS, MIN_REPEATS, MAX_SECONDS = 40, 3, 10
"""Requests of each kind: fewer if they take long. All together stay below a project's rate limit per minute."""
BATCH_VIEWS = 5_000
MAX_YEAR_MILLISECONDS = 50.0


@dataclass(frozen=True)
class ExportQuery:
    name: str
    query: str
    headers: dict[str, str]


@dataclass(frozen=True)
class ExportMeasurement:
    p50: float
    p99: float
    cpu: float
    """CPU milliseconds of the server."""
    size: int


def list_queries() -> list[ExportQuery]:
    spans = {"year": (0, DAYS), "month": (200, 230), "day": (300, 301)}
    dated = {
        name: f"dateFrom={format_day(FIRST_DAY + a)}&dateTo={format_day(FIRST_DAY + b)}"
        for name, (a, b) in spans.items()
    }
    year = dated["year"]
    return [
        *(ExportQuery(f"visitors of a {name}", f"visitors?{query}", {}) for name, query in dated.items()),
        ExportQuery("250 rows of the year's visitors", f"visitors?{year}&limit=250", {}),
        ExportQuery("the same as CSV", f"visitors?{year}&limit=250", {"Accept": "text/csv"}),
        ExportQuery("the year's visitors, unchanged (304)", f"visitors?{year}", {"If-None-Match": "*"}),
        ExportQuery("views of the year", f"views?{year}", {}),
        ExportQuery("agents of the year", f"agents?{year}", {}),
        ExportQuery("the year by week", f"timeseries?{year}&interval=week", {}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.exporting", description="Measures what reading the numbers takes."
    )
    parser.add_argument("--large", action="store_true", help="10 million views instead of 1 million")
    views = 10_000_000 if parser.parse_args().large else 1_000_000
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        data = Path(folder)
        project, key = prepare_data(data, views)
        print(f"{views:,} views; load before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
        print("| answer | p50 ms | p99 ms | CPU ms of the server | bytes |\n|---|---:|---:|---:|---:|")
        for question, figures in measure_exports(data, project, key):
            print(f"| {question.name} | {figures.p50:.1f} | {figures.p99:.1f} | {figures.cpu:.1f} | {figures.size:,} |")


def prepare_data(data: Path, views: int) -> tuple[str, str]:
    """Creates a data folder with one project and a year of traffic; returns the project and its key."""
    desk = open_desk(Settings(data=data, database_url=""))
    project = desk.projects.create("Docs", repository=str(data), ref="main", actor="benchmark").id
    key = desk.keys.create(project, actor="benchmark")[1]
    desk.close()
    store = DuckStore(data / DUCKDB_FILE)
    for day in generate_days(views):
        for start in range(0, len(day), BATCH_VIEWS):
            store.log_views(day[start : start + BATCH_VIEWS])
    store.fold()
    store.close()
    with duckdb.connect(str(data / DUCKDB_FILE)) as connection:
        connection.execute("update projects set name = ? where name = ?", [project, PROJECT])
    return project, key


def measure_exports(data: Path, project: str, key: str) -> list[tuple[ExportQuery, ExportMeasurement]]:
    with serve_collector(data) as (port, process):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

        def ask(question: ExportQuery) -> int:
            headers = {"Authorization": f"Bearer {key}", **question.headers}
            connection.request("GET", f"/v1/analytics/{project}/{question.query}", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status not in (200, 304):
                raise RuntimeError(f"{question.name} answered {answer.status}: {body!r}")
            return len(body)

        measurements = [
            (one, measure_repeated(partial(measure_process_cpu, process), partial(ask, one))) for one in list_queries()
        ]
        connection.close()
    return measurements


def measure_repeated(cpu: Callable[[], float], ask: Callable[[], int]) -> ExportMeasurement:
    ask()  # warm-up: opens connections and fills caches
    took: list[float] = []
    before = cpu()
    while len(took) < MIN_REPEATS or (len(took) < REPEATS and sum(took) < MAX_SECONDS * 1e3):
        began = time.perf_counter()
        size = ask()
        took.append((time.perf_counter() - began) * 1e3)
    return ExportMeasurement(percentile(took, 50), percentile(took, 99), (cpu() - before) / len(took) * 1e3, size)


if __name__ == "__main__":
    main()
