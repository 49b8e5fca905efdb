"""A move to another database engine is complete or has no effect, after any number of interruptions."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from sqlalchemy import text
from typer.testing import CliRunner

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, LogResult, Store
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.cluster import build_cluster
from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.cli import app
from copydesk.core.clock import DAY
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import UnfinishedMove, migrate
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.transfer.errors import MigrationFailed
from copydesk.transfer.migrate import analytics as views
from copydesk.transfer.migrate import database as database_migration
from copydesk.transfer.migrate.analytics_tables import MOVED_TABLES, ROWS_PER_PART
from copydesk.transfer.progress import SilentProgress
from copydesk.transfer.row_codec import TABLES, RowCodec, compute_digest
from tests.support import clickhouse
from tests.support.filled_data import KEY, copy_analytics, copy_data, copy_database, read_api_answers
from tests.support.imported_history import add_history, read_history
from tests.support.postgres import new_database
from tests.support.processes import CommandSpec, RunningCommand, settings_environment
from tests.support.service import Service, serve

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs copydesk migrate-stores … from this database."""

    def run(source: str, target: str, *options: str) -> Result:
        for name, value in {"DATA": str(tmp_path / "data"), "DATABASE_URL": source, "SECRET_KEY": KEY}.items():
            monkeypatch.setenv(f"COPYDESK_{name}", value)
        monkeypatch.setenv("COPYDESK_TO_DATABASE_URL", target)
        done: Result = CliRunner().invoke(app, ["migrate-stores", *options])  # type: ignore[assignment]
        return done

    return run


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Returns a SQLite database with many events; no process uses it."""
    url = copy_database(tmp_path / "data")
    with sqlite3.connect(tmp_path / "data" / "copydesk.db") as file:
        [(job,)] = file.execute("select min(id) from jobs")
        many = ((job, n, n, "thought", json.dumps({"text": "ö" * 20, "at": [n, 1e-7, None]})) for n in range(100, 2700))
        file.executemany("insert into events (job_id, seq, at, kind, data) values (?, ?, ?, ?, ?)", many)
    file.close()
    return url


def table_checksums(url: str) -> dict[str, tuple[int, str]]:
    database = Database(url)
    with database.read() as tx:
        found = {name: compute_digest(tx, RowCodec(table)) for name, table in TABLES.items()}
    database.close()
    return {name: (counted.rows, counted.checksum) for name, counted in found.items()}


class InterruptedProgress(SilentProgress):
    """Interrupts (Ctrl-C) after a number of rows."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.deep
def test_migration_to_the_other_database_and_back_is_lossless(run: Run, source: str, tmp_path: Path) -> None:
    there, back = new_database(), f"sqlite:///{tmp_path / 'back.db'}"
    done = run(source, there)
    assert done.exit_code == 0, done.output
    assert "Counts and checksums match" in done.stdout
    assert run(there, back).exit_code == 0
    assert table_checksums(source) == table_checksums(there) == table_checksums(back)
    assert table_checksums(there)["events"][0] > 2600


@pytest.mark.drill
def test_service_continues_on_the_migrated_database(run: Run, tmp_path: Path) -> None:
    source, target, data = f"sqlite:///{tmp_path / 'data' / 'copydesk.db'}", new_database(), tmp_path / "data"
    facts = copy_data(data)
    assert run(source, target).exit_code == 0
    with serve(data, repository=tmp_path, database_url=target, secret_key=KEY, with_worker=False) as now:
        project = now.desk.projects.get(facts["project"])
        assert read_api_answers(Service(now.url, now.desk, project, facts["key"], tmp_path)) == facts


@pytest.mark.deep
def test_imported_history_migrates_to_the_other_database(run: Run, tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path / 'data' / 'copydesk.db'}", new_database()
    desk = open_desk(Settings(data=tmp_path / "data", database_url=source, secret_key=KEY))
    project = desk.projects.create("Docs", repository=str(tmp_path), ref="main", actor="test")
    add_history(desk, project.id)
    before = read_history(desk, project.id)
    desk.close()
    assert run(source, target).exit_code == 0
    moved = open_desk(Settings(data=tmp_path / "data", database_url=target, secret_key=KEY))
    assert read_history(moved, project.id) == before
    moved.close()


@pytest.mark.deep
def test_interrupted_migration_resumes_and_is_not_served_before_its_end(source: str) -> None:
    target = new_database()
    for rows in (0, 300, 1500):
        with pytest.raises(KeyboardInterrupt):
            database_migration.move_database(source, target, InterruptedProgress(rows))
        database = Database(target)
        with pytest.raises(UnfinishedMove, match="copydesk migrate-stores"):
            migrate(database)
        database.close()
    moved = database_migration.move_database(source, target, SilentProgress())
    assert {name: rows for name, (rows, _) in table_checksums(target).items()} == moved
    assert table_checksums(source) == table_checksums(target)


@pytest.mark.deep
def test_source_changed_during_the_migration_is_noticed(run: Run, source: str, tmp_path: Path) -> None:
    target = new_database()
    with pytest.raises(KeyboardInterrupt):
        database_migration.move_database(source, target, InterruptedProgress(1500))
    with sqlite3.connect(tmp_path / "data" / "copydesk.db") as file:
        file.execute("update people set name = 'Somebody'")
    file.close()
    done = run(source, target)
    assert done.exit_code == 1
    assert "people differs" in str(done.exception)
    assert run(source, target, "--start-over").exit_code == 0
    assert table_checksums(source) == table_checksums(target)


@pytest.mark.deep
def test_dry_run_reports_and_writes_nothing(run: Run, source: str, tmp_path: Path) -> None:
    target = tmp_path / "new.db"
    done = run(source, f"sqlite:///{target}", "--check")
    assert done.exit_code == 0, done.output
    assert "Nothing was written" in done.stdout
    assert not target.exists()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("harm", "options"), [("name = 'a' || char(0)", ["--check"]), ("name = printf('%.300c', 'a')", [])]
)
def test_values_that_postgresql_cannot_store_are_named(
    run: Run, source: str, tmp_path: Path, harm: str, options: list[str]
) -> None:
    with sqlite3.connect(tmp_path / "data" / "copydesk.db") as file:
        file.execute(f"update projects set {harm}")
        [(project,)] = file.execute("select id from projects")
    file.close()
    done = run(source, new_database(), *options)
    assert done.exit_code == 1
    assert f"cannot store projects {project}" in str(done.exception)


@pytest.mark.deep
@pytest.mark.parametrize("held", ["source", "target"])
def test_migration_is_refused_while_the_service_runs(run: Run, source: str, tmp_path: Path, held: str) -> None:
    target = new_database()
    desk = open_desk(Settings(data=tmp_path / "elsewhere", database_url=source if held == "source" else target))
    done = run(source, target)
    desk.close()
    assert done.exit_code == 1
    assert "Stop every 'copydesk serve'" in str(done.exception)
    assert run(source, target).exit_code == 0


@pytest.mark.deep
def test_target_that_is_not_empty_is_refused(run: Run, source: str) -> None:
    target = new_database()
    assert run(source, target).exit_code == 0
    database = Database(target)
    with database.write() as tx:
        tx.execute(text("update projects set name = 'Another'"))
    database.close()
    for options in ((), ("--start-over",), ("--check",)):
        done = run(source, target, *options)
        assert done.exit_code == 1
        if options != ("--check",):
            assert "3 people, 4 jobs" in str(done.exception)


def test_invalid_addresses_are_reported_in_one_sentence(run: Run, source: str, tmp_path: Path) -> None:
    for at, to, said in (
        (source, "mysql://x", "must begin with"),
        (source, source, "the same database"),
        (f"sqlite:///{tmp_path / 'nothing.db'}", source, "no database to move"),
        (source, "postgresql://nobody:hidden@127.0.0.1:1/x", "Connection refused"),
        (source, f"sqlite:///{tmp_path / 'no' / 'folder.db'}", "unable to open"),
    ):
        done = run(at, to)
        assert done.exit_code == 1
        assert said in str(done.exception)
        assert "hidden" not in str(done.exception)
    assert not (tmp_path / "nothing.db").exists()


def make_view(project: str, visitor: int, event: int | None = None, path: str = "/") -> PageView:
    return PageView(project, path, 20_771 * DAY, VisitorClass.HUMAN, "", "", "test", "1", visitor, "", "", 200, event)


def assert_same_reports(data: Path, url: str, database: Database, project: str) -> None:
    """Asserts that every report is the same, also after known visitors and a known event arrive again."""
    old, new = DuckStore(data / "analytics.duckdb"), ClickHouseStore(url, database)
    come = [make_view(project, 5, 1 << 100), make_view(project, 6, 1 << 99), make_view(project, 5, 1 << 98)]
    for store in (old, new):
        assert store.log_views(come) == LogResult(2, (0,)), "an event of before is known"
        store.fold()
    pages = old.count_visitors_by_page(project)
    assert pages.totals.total > 100
    most_read = pages.rows[0].path
    for page in ("/", most_read):
        detail = old.load_page(project, page)
        assert detail is not None
        assert detail.views > 0
    reports: list[Callable[[Store], object]] = [
        lambda store: store.count_visitors_by_page(project),
        lambda store: store.count_visitors_by_page(project, DayRange(20_769, 20_771)),
        lambda store: store.count_views_by_page(project),
        lambda store: store.list_missing_pages(project),
        lambda store: store.list_referrers(project),
        lambda store: store.list_sections(project),
        lambda store: store.load_page(project, "/gone"),
        lambda store: store.load_page(project, "/"),
        lambda store: store.load_page(project, most_read),
        lambda store: store.load_page(project, most_read, DayRange(20_769, 20_771)),
        lambda store: store.list_agents(project),
        lambda store: store.list_rules(project),
        lambda store: store.load_timeseries(project, "day"),
    ]
    for report in reports:
        assert report(new) == report(old)
    old.close()
    new.close()


@pytest.mark.drill
def test_views_migrate_to_clickhouse_with_identical_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, target, url = tmp_path / "data", new_database(), clickhouse.new_database()
    source = f"sqlite:///{data / 'copydesk.db'}"
    project = copy_data(data)["project"]
    embedded = DuckStore(data / "analytics.duckdb")
    embedded.set_ai_classes(project, ["assistant", "training"])
    embedded.log_views([make_view(project, 5, 1 << 100)])
    for visitor in (5, 7):
        embedded.log_views([make_view(project, visitor, path="/gone")._replace(status=404, referrer="example.org")])
        embedded.fold()
    embedded.close()
    monkeypatch.setenv("COPYDESK_DATA", str(data))
    looked = CliRunner().invoke(app, ["migrate-stores", "--to-analytics", url, "--check"])
    assert "The migration would work" in looked.stdout, looked.output
    database_migration.move_database(source, target, SilentProgress())
    database = Database(target)
    for tables in (1, 4):
        with pytest.raises(KeyboardInterrupt):
            views.move_views(data, url, database, InterruptedProgress(tables * ROWS_PER_PART - 1))
    both = ["migrate-stores", "--to-database", target, "--to-analytics", url]
    database.close()
    done = CliRunner().invoke(app, both)
    assert done.exit_code == 0, done.output
    assert "COPYDESK_DATABASE_URL and COPYDESK_ANALYTICS_URL" in done.stderr
    database = Database(target)
    assert_same_reports(data, url, database, project)
    database.close()
    again = CliRunner().invoke(app, ["migrate-stores", "--to-analytics", url, "--check"])
    assert "already" in str(again.exception)


@pytest.mark.deep
def test_migration_of_views_restarts_when_clickhouse_was_emptied(tmp_path: Path) -> None:
    def log(first: int, last: int) -> None:
        embedded = DuckStore(tmp_path / "analytics.duckdb")
        embedded.log_views([make_view("proj_1", visitor) for visitor in range(first, last)])
        embedded.close()

    url, database = clickhouse.new_database(), Database(f"sqlite:///{tmp_path / 'copydesk.db'}")
    migrate(database)
    log(1, 11)
    with pytest.raises(KeyboardInterrupt):
        views.move_views(tmp_path, url, database, InterruptedProgress(4 * ROWS_PER_PART - 1))
    log(11, 16)
    with pytest.raises(MigrationFailed, match="Empty the database"):
        views.move_views(tmp_path, url, database, SilentProgress())
    empty_clickhouse(url)
    with pytest.raises(KeyboardInterrupt):
        views.move_views(tmp_path, url, database, InterruptedProgress(2 * ROWS_PER_PART - 1))
    assert views.move_views(tmp_path, url, database, SilentProgress())["visits"] == 45, "page, site, source"
    database.close()


def empty_clickhouse(url: str) -> None:
    """Deletes the rows; the tables stay, with their deduplication records."""
    cluster = build_cluster(parse_clickhouse_url(url))
    for kind in MOVED_TABLES:
        cluster.reader.execute(f"truncate table {kind.name}")
    cluster.close()


@pytest.fixture
def started() -> Iterator[list[RunningCommand]]:
    processes: list[RunningCommand] = []
    yield processes
    for process in processes:
        process.close()


@pytest.mark.drill
def test_migration_killed_repeatedly_completes(source: str, tmp_path: Path, started: list[RunningCommand]) -> None:
    data, target, url = tmp_path / "data", new_database(), clickhouse.new_database()
    with sqlite3.connect(data / "copydesk.db") as file:
        [(job,)] = file.execute("select max(id) from jobs")
        many = ((job, n, n, "thought", json.dumps({"text": str(n)})) for n in range(100, 30_000))
        file.executemany("insert into events (job_id, seq, at, kind, data) values (?, ?, ?, ?, ?)", many)
    file.close()
    project = copy_analytics(data)["project"]
    embedded = DuckStore(data / "analytics.duckdb")
    embedded.log_views([make_view(project, 1 + n % 40_000, n << 70 | n, f"/{n % 300}") for n in range(1, 60_000)])
    embedded.log_views([make_view(project, 5, 1 << 100)])
    embedded.close()
    settings = settings_environment({"data": data, "database_url": source})
    command = ["migrate-stores", "--to-database", target, "--to-analytics", url]
    kills, seconds = 0, 0.4
    while True:
        process = RunningCommand(CommandSpec(command, settings, tmp_path / "log"))
        started.append(process)
        process.process.join(seconds)
        if not process.is_alive:
            break
        process.kill()
        kills, seconds = kills + 1, seconds * 1.25
    assert process.process.exitcode == 0, process.output
    assert kills >= 5
    kept = [name for name in TABLES if not name.startswith("view_")]
    assert {name: table_checksums(source)[name] for name in kept} == {
        name: table_checksums(target)[name] for name in kept
    }
    database = Database(target)
    migrate(database)
    assert_same_reports(data, url, database, project)
    database.close()
