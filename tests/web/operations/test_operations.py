"""Operators receive correct and timely metrics and probes, without private data."""

import json
import math
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pygit2
import pytest
from prometheus_client.parser import text_string_to_metric_families as families
from sqlalchemy import event, insert, text

from copydesk.core.db.database import Database
from copydesk.core.db.migrate import SCHEMA_VERSION, migrate
from copydesk.core.projects.projects import Projects
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.storage.stats import read_queue_stats
from copydesk.jobs.storage.tables import jobs, runs
from copydesk.web.operations import readiness
from copydesk.web.operations.readiness import Readiness
from tests.conftest import DATABASE_NAMES
from tests.support.drills import mark_drills
from tests.support.postgres import connect_to_server, new_database, url_through_port
from tests.support.processes import CommandSpec, RunningCommand, RunningServer, free_port, settings_environment
from tests.support.repositories import commit, make_repository
from tests.support.service import Service, serve
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

DOCS = Path(__file__).parents[3] / "docs" / "observability.md"
PAGE = {"docs/index.md": b"# Hello\n\nThe colour of things.\n"}


@pytest.fixture
def service_on_each_database(tmp_path: Path, database_url: str) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", PAGE)
    with serve(tmp_path / "data", repository=repository, database_url=database_url) as running:
        yield running


def read_metrics(http: httpx.Client) -> dict[str, float]:
    """Returns the metrics by name and labels, as Prometheus parses them."""
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name + "".join(f"|{value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in families(answer.text)
        for sample in family.samples
    }


def read_complete_metrics(http: httpx.Client) -> dict[str, float]:
    """Returns metrics including those of the queue and the stores, which a busy machine omits while it is slow."""
    until = time.monotonic() + 60
    while True:
        time.sleep(1.1)  # figures of the stores are cached for a second
        found = read_metrics(http)
        if {"copydesk_jobs_active", "copydesk_views_waiting"} <= found.keys() or time.monotonic() > until:
            return found


@pytest.mark.deep
def test_metrics_count_jobs_events_and_exports(service_on_each_database: Service) -> None:
    service, http = service_on_each_database, service_on_each_database.http
    before = read_metrics(http)
    job = service.client.create_job("Replace “colour” with “color” on every page.")
    assert service.client.wait(job["id"])["status"] == "completed"
    events = [{"path": "/a", "eventId": "1"}, {"path": "/a", "eventId": "1"}, {"path": "/a.png"}, 7]
    assert http.post(f"/v1/analytics/{service.project.id}/events", json=events).status_code == 202
    assert http.get(f"/v1/analytics/{service.project.id}/views").status_code == 200
    after = read_complete_metrics(http)

    def more(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert more("copydesk_requests_total|create|2xx") == 1
    assert more("copydesk_request_seconds_count|events") == 1
    assert [more(f"copydesk_views_total|{outcome}") for outcome in ("accepted", "duplicate", "not_a_page")] == [1, 1, 1]
    assert more("copydesk_folded_views_total") == 1
    assert more("copydesk_attempts_total|first") == 1
    assert more("copydesk_runs_ended_total|none|completed") == 1
    assert more("copydesk_run_seconds_count|completed") == 1
    assert more("copydesk_model_requests_total|answered|mechanic") >= 1
    assert (after["copydesk_jobs_active"], after["copydesk_runs|queued"], after["copydesk_views_waiting"]) == (0, 0, 0)
    assert after["copydesk_ready|database"] == after["copydesk_ready|analytics"] == 1
    assert 0 <= time.time() - after["copydesk_worker_heartbeat_timestamp_seconds"] < 60


@pytest.mark.deep
def test_a_failed_publication_is_counted(service: Service) -> None:
    commit(pygit2.Repository(str(service.repository)), PAGE, branch="copydesk")  # conflicts with copydesk/…
    before = read_metrics(service.http).get("copydesk_publish_failures_total|repository_error", 0)
    job = service.client.wait(service.client.create_job("Replace “colour” with “color” on every page.")["id"])
    assert (job["status"], job["reason"]) == ("failed", "repository_error")
    assert read_metrics(service.http)["copydesk_publish_failures_total|repository_error"] == before + 1


def test_metric_labels_are_bounded_and_contain_no_personal_data(service: Service) -> None:
    http = service.http
    for n in range(5):
        http.get(f"/v2/agent/{service.project.id}/job/job_{n}")
        http.get(f"/nothing-{n}?secret={n}", headers={"User-Agent": f"agent-{n}"})
        http.request(f"VERB{n}", f"/v1/collect/site_{n}")
    told = http.get("/metrics").text
    for hidden in (service.project.id, service.key, "127.0.0.1", "nothing-", "job_", "site_", "agent-", "VERB", "Docs"):
        assert hidden not in told
    kinds = {sample.labels["kind"] for family in families(told) for sample in family.samples if "kind" in sample.labels}
    known = {"create", "poll", "jobs", "live", "events", "export", "beacon", "webhook", "mcp", "page", "probe"}
    assert kinds <= known | {"first", "again"}


def test_every_exposed_metric_is_documented(service: Service) -> None:
    names = re.findall(r"^# TYPE (\S+)", service.http.get("/metrics").text, re.MULTILINE)
    documented = DOCS.read_text("utf-8")
    assert len(names) > 25
    assert [name for name in names if f"`{name}" not in documented] == []


@pytest.mark.deep
def test_queue_metrics_use_indexes_and_not_past_jobs(database_url: str) -> None:
    """Checks the database's query plan: an index, and never a scan of a table."""
    database = Database(database_url)
    try:
        migrate(database)
        _add_past_jobs(database, 5_000)
        asked: list[tuple[str, Any]] = []
        event.listen(database.engine, "before_cursor_execute", lambda *said: asked.append((said[2], said[3])))
        found = read_queue_stats(database)
        assert (found.active, found.queued, found.running, found.orphaned, found.workers) == (3, 2, 1, 1, 0)
        assert found.oldest_seconds > 1000
        explain = "explain query plan " if database.is_sqlite else "explain "
        with database.read() as tx:
            plans = [str(tx.exec_driver_sql(explain + said, given).all()) for said, given in asked[:4]]
        assert len(plans) == 4
        for plan in plans:
            assert "Seq Scan" not in plan
            assert not re.search(r"SCAN (jobs|runs)", plan), plan
    finally:
        database.close()


def _add_past_jobs(database: Database, count: int) -> None:
    project = Projects(database).create("Docs", repository="/nowhere", ref="main", actor="test")
    plain = {
        "project_id": project.id, "phase": "done", "prompt": "", "repository": "", "ref": "main", "model": "mechanic",
        "draft": False, "branch": "b", "usage": {}, "checks": [], "last_event": 1, "created_at": 1, "updated_at": 1,
        "risk": [], "evidence": [], "reviewers": [], "review_state": "running",
    }  # fmt: skip
    states = ["queued", "queued", "running", *["done"] * count]
    with database.write() as tx:
        tx.execute(
            insert(jobs),
            [
                {**plain, "id": f"job_{n}", "status": "completed" if state == "done" else "active"}
                for n, state in enumerate(states)
            ],
        )
        tx.execute(
            insert(runs),
            [
                {
                    "id": f"run_{n}",
                    "job_id": f"job_{n}",
                    "project_id": project.id,
                    "number": 1,
                    "state": state,
                    "version": 1,
                    "attempt": 0,
                    "crashes": 0,
                    "worker": "w",
                    "lease_until": 1,
                    "created_at": 1,
                }
                for n, state in enumerate(states)
            ],
        )
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("vacuum analyze jobs")
            connection.exec_driver_sql("vacuum analyze runs")


@pytest.mark.deep
def test_readiness_lists_its_parts(service_on_each_database: Service) -> None:
    answer = service_on_each_database.http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "parts": {"database": "ok", "disk": "ok", "analytics": "ok"}}


@pytest.fixture
def service_and_proxy(tmp_path: Path) -> Iterator[tuple[Service, TcpProxy]]:
    url = new_database()
    repository = make_repository(tmp_path / "docs.git", PAGE)
    with tcp_proxy(lambda: connect_to_server(url)) as proxy:
        reached = url_through_port(url, proxy.port)
        with serve(tmp_path / "data", repository=repository, database_url=reached, with_worker=False) as running:
            yield running, proxy
            proxy.is_silent = False


@pytest.mark.deep
def test_hanging_database_is_noticed_within_two_seconds(
    service_and_proxy: tuple[Service, TcpProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, proxy = service_and_proxy
    with httpx.Client(base_url=service.url, timeout=60) as http:
        assert http.get("/readyz").status_code == 200
        proxy.is_silent = True
        time.sleep(1.1)  # a response is cached for a second
        for path in ("/readyz", "/metrics", "/readyz"):
            began = time.monotonic()
            answer = http.get(path)
            assert time.monotonic() - began < 60, "the database would never have answered"
            if path == "/readyz":
                assert answer.status_code == 503
                assert answer.json()["details"] == [{"field": "database", "message": "No response."}]
            else:
                assert 'copydesk_ready{part="database"} 0' in answer.text
                assert "copydesk_runs{" not in answer.text
        assert readiness.PROBE_TIMEOUT_SECONDS < 2
        with monkeypatch.context() as patched:
            patched.setattr(readiness, "PROBE_TIMEOUT_SECONDS", 600)
            assert http.get("/healthz").status_code == 200, "it does not wait for the database"
        proxy.is_silent = False
        deadline = time.monotonic() + 60
        while http.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.deep
def test_probes_query_the_stores_at_most_once_a_second(service: Service) -> None:
    asked: list[str] = []
    event.listen(service.desk.database.engine, "before_cursor_execute", lambda *said: asked.append(said[2]))
    began = time.monotonic()
    for _ in range(50):
        assert service.http.get("/readyz").status_code == 200
    seconds = math.ceil(time.monotonic() - began)
    assert len([said for said in asked if "alembic_version" in said]) <= seconds + 2


@pytest.mark.deep
def test_readiness_reports_a_different_schema_version(tmp_path: Path, database_url: str) -> None:
    """A newer version belongs to a release that is being rolled out."""
    desk = open_desk(Settings(data=tmp_path / "data", database_url=database_url))
    try:
        for version, is_ready in (("0000", False), ("moving", False), ("9999", True)):
            with desk.database.write() as tx:
                tx.execute(text("update alembic_version set version_num = :version"), {"version": version})
            report = Readiness(desk, with_analytics=False).check()
            assert report.is_ready is is_ready
            assert is_ready or SCHEMA_VERSION in (report.faults["database"] or "")
    finally:
        desk.close()


@pytest.mark.deep
def test_readiness_reports_a_full_disk_and_a_missing_folder(tmp_path: Path) -> None:
    desk = open_desk(Settings(data=tmp_path / "data"))
    try:
        full = Readiness(desk, with_analytics=False, min_free_bytes=1 << 62)
        assert full.check().faults == {"database": None, "disk": "The disk of the data folder is full."}
        gone = Readiness(desk, with_analytics=False)
        shutil.rmtree(tmp_path / "data")
        assert gone.check().faults["disk"] == "Failed (FileNotFoundError)."
    finally:
        desk.close()


@pytest.mark.embedded
def test_readiness_reports_an_unavailable_analytics_store(service: Service) -> None:
    (service.desk.settings.data / "analytics.duckdb").write_bytes(b"this is no database" * 1000)
    answer = service.http.get("/readyz")
    assert answer.status_code == 503
    assert [detail["field"] for detail in answer.json()["details"]] == ["analytics"]
    jobs_go_on = service.http.get("/readyz", params={"without": "analytics"})
    assert jobs_go_on.status_code == 200
    assert jobs_go_on.json()["parts"]["analytics"] != "ok"


def test_metrics_on_a_separate_port_are_not_public(tmp_path: Path) -> None:
    port, apart = free_port(), free_port()
    command = ("serve", "--no-worker", "--port", str(port), "--metrics-port", str(apart))
    server = RunningServer(
        CommandSpec(command, settings_environment({"data": tmp_path / "data"}), tmp_path / "log"), port
    )
    try:
        server.wait_until_ready()
        refused = httpx.get(f"{server.url}/metrics", timeout=60)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        with httpx.Client(base_url=f"http://127.0.0.1:{apart}", timeout=60) as http:
            assert read_metrics(http)["copydesk_ready|database"] == 1
            assert http.get("/readyz").json()["parts"]["analytics"] == "ok"
            assert http.get(f"/v2/agent/{'0' * 24}/jobs").status_code == 404, "nothing of the API is there"
    finally:
        server.close()


@pytest.mark.parametrize("database_url", mark_drills(DATABASE_NAMES, default=("postgres",)), indirect=True)
def test_worker_answers_probes_on_its_configured_port(tmp_path: Path, database_url: str) -> None:
    port = free_port()
    settings = {"data": tmp_path / "data", "database_url": database_url, "metrics_port": port, "log_format": "json"}
    worker = RunningCommand(CommandSpec(("work",), settings_environment(settings), tmp_path / "log"))
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                ready = httpx.get(f"{url}/readyz", timeout=60)
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline, worker.output
                time.sleep(0.05)
        assert (ready.status_code, ready.json()["parts"]) == (200, {"database": "ok", "disk": "ok"})
        assert httpx.get(f"{url}/healthz", timeout=60).json()["status"] == "ok"
        assert httpx.get(f"{url}/elsewhere", timeout=60).status_code == 404
        with httpx.Client(base_url=url, timeout=60) as http:
            found = read_metrics(http)
        assert (found["copydesk_worker_slots|free"], found["copydesk_ready|database"]) == (4, 1)
        assert not (tmp_path / "data" / "analytics.duckdb").exists(), "the views are not a worker's business"
        assert worker.stop() < 10
        assert all("message" in json.loads(line) for line in worker.output.splitlines())
    finally:
        worker.close()
