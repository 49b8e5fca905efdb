"""Logs, metrics and traces contain no secret and no personal address."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest
from sqlalchemy import make_url, text

from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.transfer.backup.create import create_backup
from copydesk.transfer.progress import SilentProgress
from tests.conftest import DATABASE_NAMES
from tests.jobs.drills import FILES, FIX_SCRIPT, SCRIPTED_MODEL, DrillProject, open_drill_project
from tests.jobs.publish.guard.test_secrets import PUSH, echo_credentials
from tests.jobs.secret_scan import NamedContent, find_secrets
from tests.support.drills import mark_drills
from tests.support.model_server import ModelServer, fail
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, OidcProvider, serve_oidc_provider
from tests.support.otlp import SpanCollector
from tests.support.people import PASSWORD, add_person
from tests.support.postgres import connect_to_server, server_url, url_through_port
from tests.support.processes import CommandSpec, RunningCommand, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository
from tests.support.service import Service
from tests.support.tcp_proxy import tcp_proxy

PERSONAL_DATA = {
    "somebody's e-mail address": "grace.hopper@example.org",
    "another person": "ada.lovelace@example.org",
    "a reader's": "reader.of.pages@example.org",
    "a visitor's address": "203.0.113.77",
    "another visitor's": "2001:db8:77:4711::9",
    "a caller's": "198.51.100.23",
    "a user agent": "Mozilla/5.0 (PeculiarBrowser/47.11)",
    "a search": "what-the-reader-looked-for",
    "a prompt": "the-unannounced-product",
    "a password": PASSWORD,
}


EXPECTED_LOG_TEXT = {"serve": "parameters hidden", "work": "ended as failed (model_error)"}


@dataclass
class TelemetryOutput:
    """All telemetry of the service, to search for leaks: also in files of other programs."""

    found: list[NamedContent] = field(default_factory=list)

    def add(self, where: str, data: bytes) -> None:
        self.found.append((where, data))

    def find_leaks(self, secrets: Mapping[str, str]) -> list[str]:
        return find_secrets(secrets, self.found)


@dataclass
class TelemetryStage:
    folder: Path
    desk: Desk
    settings: dict[str, Any]
    extra: dict[str, str]
    commands: list[RunningCommand] = field(default_factory=list)

    def work(self, form: str) -> RunningCommand:
        return self._add(RunningCommand(self._orders(form, "work")))

    def serve(self, form: str, port: int) -> RunningServer:
        server = RunningServer(self._orders(form, "serve", "--no-worker", "--port", str(port)), port)
        self._add(server)
        server.wait_until_ready()
        return server

    def _orders(self, form: str, *command: str) -> CommandSpec:
        told = {**self.settings, "log_format": form, "log_level": "debug", "log_requests": True}
        return CommandSpec(command, settings_environment(told) | self.extra, self.folder / f"{command[0]}.log")

    def _add(self, command: RunningCommand) -> RunningCommand:
        self.commands.append(command)
        return command


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with serve_oidc_provider() as provider:
        yield provider


def with_password(url: str) -> str:
    parts = make_url(url)
    return parts.set(password="password-of-the-database").render_as_string(hide_password=False)


@pytest.mark.deep
@pytest.mark.parametrize("form", mark_drills(("json", "text"), default=("json",)))
@pytest.mark.parametrize("database_url", mark_drills(DATABASE_NAMES, default=("postgres",)), indirect=True)
def test_telemetry_of_a_full_run_contains_no_secret_and_no_address(
    tmp_path: Path, database_url: str, form: str, provider: OidcProvider
) -> None:
    told, port = TelemetryOutput(), free_port()
    secrets = dict(PERSONAL_DATA)
    settings: dict[str, Any] = {
        "data": tmp_path / "data",
        "base_url": f"http://127.0.0.1:{port}",
        "models": (SCRIPTED_MODEL,),
        "lease_seconds": 30,
        "trusted_proxies": ("127.0.0.1",),
        "oidc_issuer": provider.address,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_domains": ("example.org",),
    }
    with (
        SpanCollector() as collector,
        ModelServer((), by_turn=True) as model,
        tcp_proxy(lambda: connect_to_server(server_url())) as proxy,
    ):
        if database_url.startswith("postgresql"):
            settings["database_url"] = with_password(url_through_port(database_url, proxy.port))
            secrets["the database's password"] = "password-of-the-database"
        desk = open_desk(Settings(**settings))
        extra = collector.environment
        secrets["the collector's key"] = "key-of-the-collector"
        stage = TelemetryStage(tmp_path, desk, {**settings, "model_url": model.url, "metrics_port": free_port()}, extra)
        try:
            project = desk.projects.create(
                "Local", repository=str(make_repository(tmp_path / "local.git", FILES)), ref="main", actor="test"
            )
            add_person(desk, PERSONAL_DATA["somebody's e-mail address"], "admin")
            service = Service(settings["base_url"], desk, project, "", tmp_path / "local.git")
            server = stage.serve(form, port)
            stage.work("text" if form == "json" else "json")
            with open_drill_project("gitea", service, model, tmp_path / "forge") as place:
                secrets |= {**place.secrets, "the provider's secret": CLIENT_SECRET}
                _run_jobs(place)
                _send_views(place)
                _sign_people_in(server.url, provider)
                _cause_errors(place)
                secrets |= {f"shown {n}": shown.partition(" ")[2] for n, shown in enumerate(place.fake.shown)}
            for port in (server.port, stage.settings["metrics_port"]):
                told.add("the figures", httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).content)
                told.add("readiness", httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=60).content)
            create_backup(desk.settings, desk.database, desk.store, tmp_path / "copy", SilentProgress())
            told.add("a back-up's manifest", (tmp_path / "copy" / "manifest.json").read_bytes())
            collector.wait_for(lambda spans: sum(span.name == "attempt" for span in spans) >= 3)
            for command in stage.commands:
                command.stop()
        finally:
            for command in stage.commands:
                command.close()
            desk.close()
    for body in collector.bodies:
        told.add("a trace", body)
    for command in stage.commands:
        assert command.output.count(EXPECTED_LOG_TEXT[command.orders.command[0]]) == 1, (
            "it is told that something went wrong"
        )
        told.add(f"the log of {command.orders.command[0]}", command.orders.log.read_bytes())
    assert told.find_leaks(secrets) == []
    lines = next(
        command.output for command in stage.commands if (command.orders.command[0] == "serve") == (form == "json")
    )
    assert all({"time", "level", "logger", "message"} <= json.loads(line).keys() for line in lines.splitlines())
    assert told.find_leaks({"what is to be found": "copydesk"}) != [], "it is really looked for"


def _run_jobs(place: DrillProject) -> None:
    """Runs a job that succeeds and receives a comment, one refused by the forge, and one refused by the provider."""
    prompt = f"Mend {PERSONAL_DATA['a prompt']} for {PERSONAL_DATA['another person']}."
    place.listen()
    job = place.run_job(*FIX_SCRIPT, prompt=prompt)
    assert job["status"] == "completed", job["message"]
    place.fake.comment(1, f"@copydesk tell {PERSONAL_DATA['a prompt']} so.")
    place.fake.webhooks.flush()
    place.client.wait(job["id"])
    key = place.secrets["model_key_compatible"]
    assert place.run_job(fail(401, f"Wrong key {key}"), prompt=prompt)["reason"] == "model_error"
    place.add_response_rule(PUSH, echo_credentials(401, "text/plain"))
    assert place.run_job(*FIX_SCRIPT, prompt=prompt)["reason"] == "repository_error"


def _send_views(place: DrillProject) -> None:
    service, agent = place.service, PERSONAL_DATA["a user agent"]
    address, another = PERSONAL_DATA["a visitor's address"], PERSONAL_DATA["another visitor's"]
    page = f"https://docs.example.org/guide?q={PERSONAL_DATA['a search']}"
    events = [
        {"url": page, "ip": address, "userAgent": agent},
        {"url": page, "ip": another, "userAgent": agent, "nonsense": PERSONAL_DATA["a reader's"]},
        {"url": page, "ip": [address]},
    ]
    at = f"/v1/analytics/{service.project.id}/events"
    assert service.http.post(at, json=events).status_code == 202
    assert service.http.post(at, content=b"{" + address.encode()).status_code in (400, 415)
    seen = {"User-Agent": agent, "X-Forwarded-For": PERSONAL_DATA["a caller's"]}
    beacon = f"{service.url}/v1/collect/{service.project.site_id}"
    assert httpx.post(beacon, json={"u": page}, headers=seen, timeout=60).status_code == 202
    assert httpx.get(f"{beacon}/pixel.gif?u={page}", headers=seen, timeout=60).status_code == 200
    httpx.get(
        f"{service.url}/nothing?secret={place.service.key}&q={PERSONAL_DATA['a search']}", headers=seen, timeout=60
    )
    httpx.get(
        f"{service.url}/v2/agent/x/jobs", headers={**seen, "Authorization": f"Bearer {place.service.key}x"}, timeout=60
    )


def _sign_people_in(url: str, provider: OidcProvider) -> None:
    """Signs in with the right password, with wrong ones until throttled, and with a provider, valid and invalid."""
    seen = {"X-Forwarded-For": PERSONAL_DATA["a caller's"], "User-Agent": PERSONAL_DATA["a user agent"]}
    email = PERSONAL_DATA["somebody's e-mail address"]
    for password in (PASSWORD, *[f"{PASSWORD}, not"] * 11):
        httpx.post(f"{url}/sign-in", data={"email": email, "password": password}, headers=seen, timeout=60)
    provider.claims = {"sub": "ada", "email": PERSONAL_DATA["another person"], "email_verified": True, "name": "Ada"}
    for lie in ({}, {"aud": "another"}):
        provider.claim_overrides = lie
        with httpx.Client(base_url=url, headers=seen, timeout=60) as browser:
            there = browser.get("/sign-in/oidc").headers["location"]
            browser.get(httpx.get(there, timeout=60).headers["location"])


def _cause_errors(place: DrillProject) -> None:
    """Causes database errors, whose messages must contain neither bound values nor stored ones."""
    desk, service = place.service.desk, place.service
    with desk.database.write() as tx:
        tx.execute(text("create unique index once on feedback (comment)"))
    sent = {"k": "feedback", "u": "https://docs.example.org/guide", "h": False, "c": PERSONAL_DATA["a reader's"]}
    seen = {"User-Agent": PERSONAL_DATA["a user agent"], "X-Forwarded-For": PERSONAL_DATA["a visitor's address"]}
    beacon = f"{service.url}/v1/collect/{service.project.site_id}"
    assert [httpx.post(beacon, json=sent, headers=seen, timeout=60).status_code for _ in range(2)] == [202, 500]


def test_refused_database_password_is_not_logged(tmp_path: Path) -> None:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute("drop role if exists locked")
        connection.execute("create role locked login password 'the-right-one'")
        [[file]] = connection.execute("show hba_file").fetchall()
        rules = Path(file)
        rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
        connection.execute("select pg_reload_conf()")
    with tcp_proxy(lambda: connect_to_server(server_url())) as proxy:
        url = f"postgresql://locked:the-wrong-one@127.0.0.1:{proxy.port}/postgres"
        _wait_until_refused(url)
        log = tmp_path / "log"
        settings = settings_environment({"data": tmp_path / "data", "database_url": url, "log_level": "debug"})
        command = RunningCommand(CommandSpec(("work",), settings, log))
        command.process.join(60)
    assert command.process.exitcode == 1
    assert log.read_text().strip() != ""
    told = TelemetryOutput([("the log", log.read_bytes())])
    assert told.find_leaks({"the password": "the-wrong-one", "the address": "127.0.0.1"}) == []


def _wait_until_refused(url: str) -> None:
    """Waits until the server has applied its new rules, which takes some time after the reload."""
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return
        assert time.monotonic() < deadline, "the wrong password is still accepted"
        time.sleep(0.05)
