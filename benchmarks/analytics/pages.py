"""python -m benchmarks.analytics.pages [--large]: measures dashboard pages on a filled service."""

import argparse
import http.client
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.analytics.collecting import serve_collector
from benchmarks.analytics.exporting import measure_repeated, prepare_data
from benchmarks.analytics.traffic import PROJECT
from benchmarks.jobs.measure import measure_process_cpu
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.core.accounts.people import People
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.service import NewJob
from copydesk.web.dashboard.auth.cookies import cookie_name

JOB_COUNT = 10_000
MAX_MILLISECONDS = 300.0
PAGE_PATHS = (
    "/projects",
    "/projects/{project}/readership",
    "/projects/{project}/readership?range=year",
    "/projects/{project}/readership?range=all",
    "/projects/{project}/readership?range=all&search=page-1&sort=ai",
    "/projects/{project}/readership/agents?range=all",
    "/projects/{project}/readership/feedback",
    "/projects/{project}/jobs",
    "/projects/{project}/jobs?text=number+77",
    "/projects/{project}/jobs/{job}",
    "/projects/{project}/keys",
    "/projects/{project}/settings",
    "/projects/{project}/audit",
    "/people",
    "/system",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.pages", description="Measures what the dashboard's pages take."
    )
    parser.add_argument("--large", action="store_true", help="10 million views instead of 1 million")
    parser.add_argument("--store", type=Path, help="a file of such views that another benchmark has left")
    options = parser.parse_args()
    views = 10_000_000 if options.large else 1_000_000
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        data = Path(folder)
        project = _copy_views(data, options.store) if options.store else prepare_data(data, views)[0]
        desk = open_desk(Settings(data=data, database_url=""))
        job, cookie = _add_jobs(desk, project), f"{cookie_name(desk.settings)}={sign_in(desk.people)}"
        desk.close()
        print(f"{views:,} views, {JOB_COUNT:,} jobs; load before the run: {os.getloadavg()[0]:.1f}.\n")
        print("| page | p50 ms | p99 ms | CPU ms of the server | bytes |\n|---|---:|---:|---:|---:|")
        with serve_collector(data) as (port, process):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            for path in PAGE_PATHS:
                page_path = path.format(project=project, job=job)
                figures = measure_repeated(
                    partial(measure_process_cpu, process), partial(request_page, connection, page_path, cookie)
                )
                page_name = path.replace("/projects/{project}/", "…/")
                print(
                    f"| `{page_name}` | {figures.p50:.0f} | {figures.p99:.0f} | {figures.cpu:.0f} | {figures.size:,} |",
                    flush=True,
                )
            connection.close()


def _copy_views(data: Path, store: Path) -> str:
    desk = open_desk(Settings(data=data, database_url=""))
    project = desk.projects.create("Docs", repository=str(data), ref="main", actor="benchmark").id
    desk.close()
    shutil.copy(store, data / DUCKDB_FILE)
    with duckdb.connect(str(data / DUCKDB_FILE)) as connection:
        connection.execute("update projects set name = ? where name = ?", [project, PROJECT])
    return project


def _add_jobs(desk: Desk, project_id: str) -> str:
    project = desk.projects.get(project_id)
    for number in range(JOB_COUNT):
        _add_job(desk, project, number)
    [newest, *_], _ = desk.jobs.list_page(project_id, None, 1, None)
    return newest.id


def _add_job(desk: Desk, project: object, number: int) -> None:
    desk.jobs.create(project, NewJob(f"Mend the typo on page number {number}."))  # type: ignore[arg-type]


def sign_in(people: People) -> str:
    person = people.accept_invitation(
        people.invite("ada@example.org", "admin", actor="benchmark"), "", "Ada", "correct horse"
    )
    return people.sessions.create(person, "127.0.0.1", "benchmark")


def request_page(connection: http.client.HTTPConnection, path: str, cookie: str) -> int:
    connection.request("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}")
    return len(body)


if __name__ == "__main__":
    main()
