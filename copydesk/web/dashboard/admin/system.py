"""The page /system: the state of the service, for operators. It shows no secrets."""

import asyncio
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from fastapi import APIRouter, Response
from sqlalchemy import text

from copydesk import __version__
from copydesk.core import clock
from copydesk.core.errors import RequestError
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.storage.stats import list_workers, read_queue_stats
from copydesk.web.dashboard.admin.disk_usage import measure_disk_usage
from copydesk.web.dashboard.auth.access import AdminRequest
from copydesk.web.responses.html import render_page

router = APIRouter()
STARTED_AT = clock.now()
"""When this process was started, to about a second: this module is imported shortly after the start."""
ANALYTICS_TIMEOUT_SECONDS = 0.15
"""After this time the page shows the store as busy instead of waiting longer."""


@router.get("/system")
async def system_page(signed_in: AdminRequest) -> Response:
    desk = signed_in.desk
    queue, workers, analytics, disk_usage, sessions, people = await asyncio.gather(
        run_in_thread(read_queue_stats, desk.database),
        run_in_thread(list_workers, desk.database),
        _with_timeout(_read_analytics_status, desk),
        run_in_thread(measure_disk_usage, desk.settings.data.absolute()),
        run_in_thread(desk.people.sessions.count),
        run_in_thread(desk.people.all),
    )
    return render_page(
        "system.html",
        signed_in=signed_in,
        tab="system",
        title="System",
        started_at=STARTED_AT,
        versions=await run_in_thread(_list_versions, desk),
        views_in="ClickHouse" if desk.settings.analytics_url else "DuckDB",
        queue=queue,
        workers=workers,
        analytics=analytics,
        disk=disk_usage,
        people=len(people),
        sessions=sessions,
        now=clock.now(),
    )


def _list_versions(desk: Desk) -> dict[str, str]:
    database = desk.database
    with database.read() as tx:
        query = "select sqlite_version()" if database.is_sqlite else "show server_version"
        database_version = tx.execute(text(query)).scalar_one()
    store_name, package = (
        ("ClickHouse client", "clickhouse-connect") if desk.settings.analytics_url else ("DuckDB", "duckdb")
    )
    return {
        "Copydesk": __version__,
        "Python": platform.python_version(),
        "SQLite" if database.is_sqlite else "PostgreSQL": database_version,
        store_name: version(package),  # reads the package's metadata without importing it
    }


@dataclass(frozen=True)
class AnalyticsStatus:
    """The state of the analytics store. `backlog` counts the views that are not folded yet; None means unknown."""

    state: str
    sentence: str
    backlog: int | None = None
    lag: float = 0.0


def _read_analytics_status(desk: Desk) -> AnalyticsStatus:
    if not desk.may_have_views:
        return AnalyticsStatus("quiet", "No page views yet.", 0)
    try:
        desk.store.ping()
        backlog = desk.store.backlog()
    except RequestError as error:
        return AnalyticsStatus("bad", error.message)
    if desk.fold_scheduler.is_failing:
        return AnalyticsStatus(
            "bad", "Counting fails and is retried. See the server log.", backlog, desk.fold_scheduler.lag
        )
    return AnalyticsStatus("good", "Reachable.", backlog, desk.fold_scheduler.lag)


async def _with_timeout(read_status: Callable[[Desk], AnalyticsStatus], desk: Desk) -> AnalyticsStatus:
    try:
        return await asyncio.wait_for(run_in_thread(read_status, desk), ANALYTICS_TIMEOUT_SECONDS)
    except TimeoutError:
        return AnalyticsStatus("warn", "Busy. Reload the page to try again.")
