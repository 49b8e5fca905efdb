"""Makes data folders with millions of views: one million are logged, and the others are copies by other visitors."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from benchmarks.analytics.pages import sign_in
from benchmarks.analytics.traffic import DAYS, FIRST_DAY, PROJECT, generate_days
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding.runs.open_run import get_run_folder
from copydesk.analytics.stores.duckdb.ids.scopes import MISSING_SCOPE, PAGE_SCOPE, compute_salt
from copydesk.analytics.stores.duckdb.sections.section_search import MIN_LARGE_VIEWS
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.core.clock import DAY
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.web.dashboard.auth.cookies import cookie_name

MILLION = 1_000_000
BATCH_VIEWS = 5_000
DESCRIPTION_FILE = "benchmark.json"
SHIFT_MILLISECONDS = 7_919_000
"""Each copy of a day is shifted by this much within the day, so that equal views are not neighbors on the disk."""
COPY_NAMES = (
    "insert into projects from base.projects",
    "delete from scopes",
    "insert into scopes from base.scopes",
    "insert into rules from base.rules",
)
COPY_DAY = """
    create or replace temp table day_views as
    select * exclude (moved, copy, mask, id) replace (
        $last + row_number() over (order by moved, copy, seq) as seq, moved as time, xor(visitor, mask) as visitor
    ), xor(id, mask) as id
    from (
        select logged.*, id, copy, $midnight + (time % $length + copy * $shift) % $length as moved,
            if(copy = 0, 0, (hash(copy) >> 1)::bigint) as mask
        from base.views as logged left join base.events using (seq), (select unnest(range($copies)) as copy)
        where time >= $midnight and time < $midnight + $length
    )
    order by moved, copy, seq
"""


@dataclass(frozen=True)
class ScaleData:
    """A data folder with one project, and what it cost to fold its views."""

    folder: str
    views: int
    project: str
    key: str
    cookie: str
    """Signs a person in to the dashboard."""
    fold_cpu_seconds: float = 0
    fold_memory_megabytes: float = 0
    indexing_cpu_seconds: float = 0
    """The cost of indexing the sections of a large project after the fold; 0 if they are not indexed."""
    indexing_memory_megabytes: float = 0
    disk_bytes: int = 0
    """With the sections of a large project."""

    @property
    def store(self) -> Path:
        return Path(self.folder, DUCKDB_FILE)

    @property
    def is_large(self) -> bool:
        """Whether all sections of the project are indexed before a report asks for them."""
        return self.views >= MIN_LARGE_VIEWS

    def save(self) -> None:
        Path(self.folder, DESCRIPTION_FILE).write_text(json.dumps(asdict(self)))


def load_scale_data(folder: Path, millions: int) -> ScaleData | None:
    """Returns a data folder that an earlier run has made and folded."""
    description = folder / f"{millions}m" / DESCRIPTION_FILE
    return ScaleData(**json.loads(description.read_text())) if description.exists() else None


def set_visits_cached(store: Path, is_cached: bool) -> None:
    """Makes the operating system read the files of visits into its cache, or drop them from it."""
    for path in get_run_folder(store).iterdir():
        with path.open("rb", buffering=0) as file:
            if is_cached:
                while file.read(MILLION):
                    pass
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_base(folder: Path, report: Callable[[str], None]) -> Path:
    """Logs one million views, unless they are there. Returns the file of the store."""
    path = folder / "base.duckdb"
    if path.exists():
        return path
    report("logging 1,000,000 views")
    unfinished = folder / "base-unfinished.duckdb"
    unfinished.unlink(missing_ok=True)
    store = DuckStore(unfinished)
    for day in generate_days(MILLION):
        for start in range(0, len(day), BATCH_VIEWS):
            store.log_views(day[start : start + BATCH_VIEWS])
    store.close()
    return unfinished.rename(path)


def make_unfolded(folder: Path, millions: int, report: Callable[[str], None]) -> ScaleData:
    """Makes a data folder whose views are logged and not folded, day by day, so that memory does not grow."""
    base = make_base(folder, report)
    data = folder / f"{millions}m"
    if data.exists():
        shutil.rmtree(data)
    data.mkdir()
    desk = open_desk(Settings(data=data, database_url=""))
    project = desk.projects.create("Docs", repository=str(data), ref="main", actor="benchmark").id
    key = desk.keys.create(project, actor="benchmark")[1]
    cookie = f"{cookie_name(desk.settings)}={sign_in(desk.people)}"
    desk.close()
    path = data / DUCKDB_FILE
    DuckStore(path).close()
    with duckdb.connect(str(path), config={"threads": 1, "memory_limit": "2GB"}) as connection:
        connection.execute("set enable_progress_bar = false")
        connection.execute(f"attach '{base}' as base (read_only)")
        for statement in COPY_NAMES:
            connection.execute(statement)
        _rename_project(connection, project)
        views = 0
        for number in range(DAYS):
            if number % 50 == 0:
                report(f"{millions} million views: day {number} of {DAYS}")
            views += _copy_day(connection, FIRST_DAY + number, millions, views)
    return ScaleData(str(data), millions * MILLION, project, key, cookie)


def _rename_project(connection: duckdb.DuckDBPyConnection, project: str) -> None:
    """Gives the project of the base this name, and its scopes the salts that they would have if it always had it."""
    connection.execute("update projects set name = ? where name = ?", [project, PROJECT])
    scopes = connection.execute("select id, sort, path from scopes").fetchall()
    salts = [
        (compute_salt(project, path if sort in (PAGE_SCOPE, MISSING_SCOPE) else None, sort), scope_id)
        for scope_id, sort, path in scopes
    ]
    connection.executemany("update scopes set salt = ? where id = ?", salts)


def _copy_day(connection: duckdb.DuckDBPyConnection, day: int, copies: int, last: int) -> int:
    """Appends a day of the base as many times as there are copies, each with other visitors and events.

    Returns how many views.
    """
    params = {"midnight": day * DAY, "length": DAY, "shift": SHIFT_MILLISECONDS, "copies": copies, "last": last}
    connection.execute(COPY_DAY, params)
    connection.execute("insert into events by name select project, id, seq from day_views where id is not null")
    [(views,)] = connection.execute("insert into views by name select * exclude (id) from day_views").fetchall()
    return int(views)
