"""/system: how the service is doing, for whoever keeps it running. Nothing secret is on it."""

import asyncio
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from fastapi import APIRouter, Response
from sqlalchemy import func, select, text

from copydesk import __version__
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import Refusal
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.storage.tables import runs
from copydesk.web.dashboard.admin.disk_usage import disk
from copydesk.web.dashboard.auth.session import Admin
from copydesk.web.responses.html import page

router = APIRouter()
STARTED_AT = clock.now()
"""When this process was started, give or take the second that takes."""
PATIENCE_SECONDS = 0.15
"""A store that is busy is said to be so; the page does not wait for it."""


@router.get("/system")
async def system(visit: Admin) -> Response:
    desk = visit.desk
    queue, analytics, used, sessions, people = await asyncio.gather(
        call(_queue, desk.database),
        _patiently(_analytics, desk),
        call(disk, desk.settings.data.absolute()),
        call(desk.people.sessions.count),
        call(desk.people.all),
    )
    return page(
        "system.html",
        visit=visit,
        tab="system",
        title="System",
        started_at=STARTED_AT,
        versions=await call(_versions, desk),
        views_in="ClickHouse" if desk.settings.analytics_url else "DuckDB",
        queue=queue,
        analytics=analytics,
        disk=used,
        people=len(people),
        sessions=sessions,
        now=clock.now(),
    )


def _versions(desk: Desk) -> dict[str, str]:
    database = desk.database
    with database.read() as tx:
        asked = "select sqlite_version()" if database.is_sqlite else "show server_version"
        kept_in = tx.execute(text(asked)).scalar_one()
    name, package = (
        ("ClickHouse's client", "clickhouse-connect") if desk.settings.analytics_url else ("DuckDB", "duckdb")
    )
    return {
        "Copydesk": __version__,
        "Python": platform.python_version(),
        "SQLite" if database.is_sqlite else "PostgreSQL": kept_in,
        name: version(package),  # which is not loaded for that
    }


@dataclass(frozen=True)
class Work:
    worker: str
    runs: int
    since: int
    is_alive: bool


@dataclass(frozen=True)
class Waiting:
    runs: int
    oldest: int | None
    workers: list[Work]


def _queue(database: Database) -> Waiting:
    waiting = select(func.count(), func.min(runs.c.created_at)).where(runs.c.state == "queued")
    running = (
        select(runs.c.worker, func.count(), func.min(runs.c.started_at), func.max(runs.c.lease_until) > database.now)
        .where(runs.c.state == "running")
        .group_by(runs.c.worker)
        .order_by(runs.c.worker)
    )
    with database.read() as tx:
        count, oldest = tx.execute(waiting).one()
        workers = [Work(row[0], row[1], row[2], bool(row[3])) for row in tx.execute(running)]
    return Waiting(count, oldest, workers)


@dataclass(frozen=True)
class Counting:
    """How the analytics store is doing."""

    state: str
    sentence: str
    backlog: int | None = None
    lag: float = 0.0


def _analytics(desk: Desk) -> Counting:
    if not desk.may_have_views:
        return Counting("quiet", "No view has arrived yet.", 0)
    try:
        desk.store.ping()
        backlog = desk.store.backlog()
    except Refusal as refusal:
        return Counting("bad", refusal.message)
    if desk.keeper.is_failing:
        return Counting("bad", "Counting fails and is tried again; the log says why.", backlog, desk.keeper.lag)
    return Counting("good", "Reachable.", backlog, desk.keeper.lag)


async def _patiently(look: Callable[[Desk], Counting], desk: Desk) -> Counting:
    try:
        return await asyncio.wait_for(call(look, desk), PATIENCE_SECONDS)
    except TimeoutError:
        return Counting("warn", "Busy right now; reload to look again.")
