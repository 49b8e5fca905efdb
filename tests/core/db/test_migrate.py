"""The schema is the sum of its migrations, stores of every earlier release open, and old and new processes coexist."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import Connection, Inspector, inspect, select, text

from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DUCKDB_SCHEMA_VERSION
from copydesk.analytics.stores.errors import StoreSchemaNewer
from copydesk.cli.demo.sample_traffic import BROWSERS
from copydesk.core.clock import DAY, format_iso
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import (
    SCHEMA_VERSION,
    UNFINISHED_VERSION,
    NewerSchema,
    UnfinishedMove,
    list_schema_versions,
    migrate,
    read_schema_version,
    upgrade_schema,
)
from copydesk.jobs.job import Creator, CreatorKind
from copydesk.jobs.storage.lookups.job_search import JobFilter, find_jobs, list_creators
from copydesk.jobs.storage.review_states import REVIEW_STATE
from copydesk.jobs.storage.tables import jobs
from copydesk.transfer.row_codec import TABLES
from tests.fixtures.freeze import TOKEN, read_api_answers
from tests.support.filled_service import PAGES
from tests.support.postgres import new_database
from tests.support.releases import RELEASES, read_frozen_answers, serve_release, thaw_analytics, thaw_database
from tests.support.service import Service

FROZEN_ON = {"0.1.0": 20_771}
"""The day (counted from 1970) of the last readers in the store."""


def describe_table(there: Inspector, table: str) -> dict[str, Any]:
    """Describes everything that the engine knows of a table, in comparable form."""

    def sorted_by_name(found: Any) -> list[str]:
        return sorted(str(sorted(each.items(), key=str)) for each in found)

    columns = {
        column["name"]: (str(column["type"]), column["nullable"], column["default"])
        for column in there.get_columns(table)
    }
    return {
        "columns": columns,
        "primary key": str(there.get_pk_constraint(table)),
        "foreign keys": sorted_by_name(there.get_foreign_keys(table)),
        "unique": sorted_by_name(there.get_unique_constraints(table)),
        "checks": sorted_by_name(there.get_check_constraints(table)),
        "indexes": sorted_by_name(there.get_indexes(table)),
        "options": str(there.get_table_options(table)),
    }


def describe_tables(tx: Connection) -> dict[str, dict[str, Any]]:
    there = inspect(tx)
    return {table: describe_table(there, table) for table in there.get_table_names() if table != "alembic_version"}


@pytest.fixture
def tx(database_url: str) -> Iterator[Connection]:
    database = Database(database_url)
    with database.write() as tx:
        yield tx
    database.close()


def new_url(url: str, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'another.db'}" if url.startswith("sqlite") else new_database()


def test_migrated_tables_equal_the_declared_tables(database_url: str, tmp_path: Path) -> None:
    migrated, declared = Database(database_url), Database(new_url(database_url, tmp_path))
    migrate(migrated)
    with declared.write() as tx:
        for table in TABLES.values():
            table.create(tx)
        wanted = describe_tables(tx)
    with migrated.read() as tx:
        found = describe_tables(tx)
    migrated.close()
    declared.close()
    assert {*found} == {*wanted}
    for name, facts in wanted.items():
        assert found[name] == facts


MADE_NULLABLE = {("mails", "project_id")}
"""Columns that may be null since a later version. The release before does not read them."""


def test_migrations_stay_compatible_with_the_previous_release(tx: Connection) -> None:
    """Checks that a process of the previous release can still write its rows and read what it needs."""
    before: dict[str, dict[str, Any]] = {}
    for version in list_schema_versions():
        upgrade_schema(tx, version)
        after = describe_tables(tx)
        for table, was in before.items():
            now = after[table]
            kept = {name: column for name, column in was["columns"].items() if (table, name) not in MADE_NULLABLE}
            assert {name: now["columns"].get(name) for name in kept} == kept, (version, table)
            new = [column for name, column in now["columns"].items() if name not in was["columns"]]
            assert all(nullable or default is not None for _, nullable, default in new), (version, table)
            for rule in ("primary key", "foreign keys", "unique", "checks", "options"):
                assert now[rule] == was[rule], (version, table, rule)
            assert {*was["indexes"]} <= {*now["indexes"]}, (version, table)
            more = {*now["indexes"]} - {*was["indexes"]}
            assert not any("('unique', 1)" in index or "('unique', True)" in index for index in more), (version, table)
        before = after
    assert list_schema_versions()[-1] == SCHEMA_VERSION


def test_runs_that_were_released_before_the_upgrade_are_still_released(tx: Connection) -> None:
    """Earlier, a released run had a negative `lease_until` with the time, and a restored run had 0."""
    upgrade_schema(tx, "0002")
    project = {"id": "p", "site_id": "s", "name": "P", "repository": "/r", "ref": "main", "root": "", "forge": "local"}
    _insert(tx, "projects", **project, allow_private=True, policy="{}", collecting="{}", created_at=0)
    job = {"id": "j", "project_id": "p", "status": "active", "phase": "queued", "prompt": "x", "repository": "/r"}
    job |= {"ref": "main", "model": "m", "branch": "b", "usage": "{}", "checks": "[]"}
    _insert(tx, "jobs", **job, draft=False, last_event=0, created_at=0, updated_at=0)
    for number, lease_until in enumerate((-7000, 0, 7000, None)):
        run = {"id": f"r{number}", "job_id": "j", "project_id": "p", "number": number, "state": "running"}
        _insert(tx, "runs", **run, version=1, attempt=1, crashes=0, lease_until=lease_until, created_at=0)
    upgrade_schema(tx, "0003")
    leases = tx.execute(text("select lease_until, released_at from runs order by number")).all()
    assert leases == [(7000, 7000), (0, 0), (7000, None), (None, None)]


def test_feedback_from_before_the_upgrade_has_a_source_and_a_status(tx: Connection) -> None:
    upgrade_schema(tx, "0003")
    project = {"id": "p", "site_id": "s", "name": "P", "repository": "/r", "ref": "main", "root": "", "forge": "local"}
    _insert(tx, "projects", **project, allow_private=True, policy="{}", collecting="{}", created_at=0)
    for number, comment in enumerate(("Good.", None)):
        _insert(tx, "feedback", id=f"f{number}", project_id="p", path="/", helpful=True, comment=comment, created_at=0)
    upgrade_schema(tx, "0004")
    rows = tx.execute(text("select source, status from feedback order by id")).all()
    assert rows == [("contextual", "pending"), ("thumbs_only", "pending")]


STATUSES = (("active", None), ("completed", None), ("failed", None), ("archived", "completed"), ("archived", "failed"))


def test_jobs_from_before_the_review_queue_have_their_state_and_automation(database_url: str) -> None:
    """The migration contains a copy of the rule for states, which may not change, so it is compared with the rule."""
    database = Database(database_url)
    with database.write() as tx:
        upgrade_schema(tx, "0016")
        _insert_project(tx)
        reasons = (None, "question", "not_understood", "no_changes", "cancelled")
        pulls = ((None, None), (None, "/pulls/1"), ("open", "/pulls/1"), ("merged", "/pulls/1"), ("closed", "/pulls/1"))
        for number, (status, pull, reason) in enumerate(product(STATUSES, pulls, reasons)):
            (state, archived_from), (pull_state, link) = status, pull
            job = {"id": f"job_{number:03}", "status": state, "archived_from": archived_from, "reason": reason}
            job |= {"pull_state": pull_state, "pr_link": link, "automation_id": "auto_1"}
            _insert_job(tx, **job, created_by='{"kind": "automation", "name": "Nightly"}')
    migrate(database)
    with database.read() as tx:
        rows = tx.execute(select(jobs.c.id, jobs.c.review_state, REVIEW_STATE.label("rule"))).all()
    creators = list_creators(database, ["p"])
    found = find_jobs(database, JobFilter(["p"], creator_id="auto_1"), 200, None).jobs
    database.close()
    assert [row.id for row in rows if row.review_state != row.rule] == []
    assert len(found) == len(rows) == 125
    assert creators == [Creator(kind=CreatorKind.AUTOMATION, name="Nightly", id="auto_1")]
    assert {job.created_by for job in found} == {*creators}


def _insert_project(tx: Connection) -> None:
    project = {"id": "p", "site_id": "s", "name": "P", "repository": "/r", "ref": "main", "root": "", "forge": "local"}
    _insert(tx, "projects", **project, allow_private=True, policy="{}", collecting="{}", created_at=0)


def _insert_job(tx: Connection, **values: Any) -> None:
    job = {"project_id": "p", "phase": "queued", "prompt": "x", "repository": "/r", "ref": "main", "model": "m"}
    job |= {"branch": "b", "usage": "{}", "checks": "[]"}
    _insert(tx, "jobs", **job, **values, draft=False, last_event=0, created_at=0, updated_at=0)


def _insert(tx: Connection, table: str, **values: Any) -> None:
    columns, binds = ", ".join(values), ", ".join(f":{name}" for name in values)
    tx.execute(text(f"insert into {table} ({columns}) values ({binds})"), values)


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(release: str, database_url: str, tmp_path: Path) -> Iterator[Service]:
    with serve_release(release, database_url, tmp_path / "data", tmp_path / "docs.git") as service:
        yield service


def test_store_of_an_earlier_release_is_upgraded_with_identical_reports(old: Service, release: str) -> None:
    engine = "sqlite" if old.desk.database.is_sqlite else "postgres"
    facts = read_api_answers(old)
    assert facts == read_frozen_answers(release, engine)
    assert old.desk.secrets.get(old.project.id, "forge_token") == TOKEN
    with old.desk.database.read() as tx:
        assert read_schema_version(tx) == SCHEMA_VERSION
        declared = {name: {*table.columns.keys()} for name, table in TABLES.items()}
        assert {name: {*facts["columns"]} for name, facts in describe_tables(tx).items()} == declared
    again = facts["people"], old.client.create_job("Replace “colour” with “color”.")["status"]
    assert again == (facts["people"], "active"), "and it goes on from there"


def test_visitors_of_an_earlier_release_are_recognized(old: Service, release: str) -> None:
    day = FROZEN_ON[release]
    moment = format_iso(day * DAY + DAY // 2)
    known = [
        {"path": path, "timestamp": moment, "userAgent": BROWSERS[0], "eventId": f"{day}-person-0-{path}"}
        for path in PAGES
    ]
    assert old.client.send_events(known)["duplicates"] > 0, "what was sent once is known"
    everybody = [
        {"path": "/", "timestamp": moment, "userAgent": BROWSERS[n % len(BROWSERS)], "ip": f"192.0.2.{n}"}
        for n in range(250)
    ]
    old.client.send_events(everybody)
    [front] = [row for row in old.client.visitors()["visitors"] if row["path"] == "/"]
    assert front["human"] == 250


def test_a_newer_analytics_store_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "analytics.duckdb"
    DuckStore(path).close()
    with duckdb.connect(str(path)) as file:
        file.execute("update marks set value = $1 where name = 'schema'", [DUCKDB_SCHEMA_VERSION + 1])
    with pytest.raises(StoreSchemaNewer, match="newer version"):
        DuckStore(path)
    with duckdb.connect(str(path)) as file:
        file.execute("update marks set value = $1 where name = 'schema'", [DUCKDB_SCHEMA_VERSION])
    DuckStore(path).close()


def test_an_analytics_store_is_upgraded_to_the_tables_of_a_new_one(release: str, tmp_path: Path) -> None:
    DuckStore(thaw_analytics(release, "sqlite", tmp_path / "old")).close()
    DuckStore(tmp_path / "analytics.duckdb").close()
    shapes = []
    for path in (tmp_path / "old" / "analytics.duckdb", tmp_path / "analytics.duckdb"):
        with duckdb.connect(str(path), read_only=True) as file:
            asked = "select table_name, column_name, data_type, is_nullable from duckdb_columns() order by all"
            shapes.append(file.execute(asked).fetchall())
    assert shapes[0] == shapes[1]


def test_database_of_an_unfinished_migration_is_not_served(database_url: str) -> None:
    database = Database(database_url)
    migrate(database)
    for version, refusal in ((UNFINISHED_VERSION, UnfinishedMove), ("9999", NewerSchema)):
        with database.write() as tx:
            tx.execute(text("update alembic_version set version_num = :version"), {"version": version})
        with pytest.raises(refusal):
            migrate(database)
    database.close()


UPGRADE = """
import sys
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
migrate(Database(sys.argv[1]))
"""


@pytest.mark.drill
def test_two_processes_that_start_at_once_on_an_old_database_upgrade_it_once(release: str, database_url: str) -> None:
    thaw_database(release, database_url)
    starting = [subprocess.Popen([sys.executable, "-c", UPGRADE, database_url]) for _ in range(2)]
    assert [process.wait(timeout=180) for process in starting] == [0, 0]
    database = Database(database_url)
    with database.read() as tx:
        assert tx.execute(text("select version_num from alembic_version")).scalars().all() == [SCHEMA_VERSION]
        assert tx.execute(text("select count(*) from jobs")).scalar_one() == 4
    database.close()
