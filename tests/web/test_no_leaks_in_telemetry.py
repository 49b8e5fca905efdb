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
from tests.conftest import DATABASES
from tests.jobs.drills import FILES, MENDED, MODEL, Place, place_on
from tests.jobs.publish.guard.test_secrets import PUSH, echo
from tests.jobs.traces import Found, traces
from tests.support.drills import drills
from tests.support.model_server import ModelServer, fail
from tests.support.oidc import CLIENT, SECRET, OidcProvider, oidc_provider
from tests.support.otlp import Collector
from tests.support.people import PASSWORD, add_person
from tests.support.postgres import line_to, server_url, through
from tests.support.processes import Command, Orders, Served, environment, free_port
from tests.support.repositories import make_repository
from tests.support.service import Service
from tests.support.tcp_proxy import proxied

PEOPLE = {
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


SEEN = {"serve": "parameters hidden", "work": "ended as failed (model_error)"}


@dataclass
class Told:
    """All telemetry of the service, to search for leaks: also in files of other programs."""

    found: list[Found] = field(default_factory=list)

    def add(self, where: str, data: bytes) -> None:
        self.found.append((where, data))

    def leaks(self, secrets: Mapping[str, str]) -> list[str]:
        return traces(secrets, self.found)


@dataclass
class Stage:
    folder: Path
    desk: Desk
    settings: dict[str, Any]
    extra: dict[str, str]
    commands: list[Command] = field(default_factory=list)

    def work(self, form: str) -> Command:
        return self._add(Command(self._orders(form, "work")))

    def serve(self, form: str, port: int) -> Served:
        server = Served(self._orders(form, "serve", "--no-worker", "--port", str(port)), port)
        self._add(server)
        server.wait_until_ready()
        return server

    def _orders(self, form: str, *command: str) -> Orders:
        told = {**self.settings, "log_format": form, "log_level": "debug", "log_requests": True}
        return Orders(command, environment(told) | self.extra, self.folder / f"{command[0]}.log")

    def _add(self, command: Command) -> Command:
        self.commands.append(command)
        return command


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with oidc_provider() as provider:
        yield provider


def with_password(url: str) -> str:
    parts = make_url(url)
    return parts.set(password="password-of-the-database").render_as_string(hide_password=False)


@pytest.mark.parametrize("form", drills(("json", "text"), but=("json",)))
@pytest.mark.parametrize("database_url", drills(DATABASES, but=("postgres",)), indirect=True)
def test_telemetry_of_a_full_run_contains_no_secret_and_no_address(
    tmp_path: Path, database_url: str, form: str, provider: OidcProvider
) -> None:
    told, port = Told(), free_port()
    secrets = dict(PEOPLE)
    settings: dict[str, Any] = {
        "data": tmp_path / "data",
        "base_url": f"http://127.0.0.1:{port}",
        "models": (MODEL,),
        "lease_seconds": 30,
        "trusted_proxies": ("127.0.0.1",),
        "oidc_issuer": provider.address,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_domains": ("example.org",),
    }
    with (
        Collector() as collector,
        ModelServer((), by_turn=True) as model,
        proxied(lambda: line_to(server_url())) as proxy,
    ):
        if database_url.startswith("postgresql"):
            settings["database_url"] = with_password(through(database_url, proxy.port))
            secrets["the database's password"] = "password-of-the-database"
        desk = open_desk(Settings(**settings))
        extra = collector.environment
        secrets["the collector's key"] = "key-of-the-collector"
        stage = Stage(tmp_path, desk, {**settings, "model_url": model.url, "metrics_port": free_port()}, extra)
        try:
            project = desk.projects.create(
                "Local", repository=str(make_repository(tmp_path / "local.git", FILES)), ref="main", actor="test"
            )
            add_person(desk, PEOPLE["somebody's e-mail address"], "admin")
            service = Service(settings["base_url"], desk, project, "", tmp_path / "local.git")
            server = stage.serve(form, port)
            stage.work("text" if form == "json" else "json")
            with place_on("gitea", service, model, tmp_path / "forge") as place:
                secrets |= {**place.secrets, "the provider's secret": SECRET}
                _jobs(place)
                _visitors(place)
                _people(server.url, provider)
                _faults(place)
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
        assert command.said.count(SEEN[command.orders.command[0]]) == 1, "it is told that something went wrong"
        told.add(f"the log of {command.orders.command[0]}", command.orders.log.read_bytes())
    assert told.leaks(secrets) == []
    lines = next(
        command.said for command in stage.commands if (command.orders.command[0] == "serve") == (form == "json")
    )
    assert all({"time", "level", "logger", "message"} <= json.loads(line).keys() for line in lines.splitlines())
    assert told.leaks({"what is to be found": "copydesk"}) != [], "it is really looked for"


def _jobs(place: Place) -> None:
    """Runs a job that succeeds and receives a comment, one refused by the forge, and one refused by the provider."""
    prompt = f"Mend {PEOPLE['a prompt']} for {PEOPLE['another person']}."
    place.listen()
    job = place.done(*MENDED, prompt=prompt)
    assert job["status"] == "completed", job["message"]
    place.fake.comment(1, f"@copydesk tell {PEOPLE['a prompt']} so.")
    place.fake.webhooks.flush()
    place.client.wait(job["id"])
    key = place.secrets["model_key_compatible"]
    assert place.done(fail(401, f"Wrong key {key}"), prompt=prompt)["reason"] == "model_error"
    place.refuse(PUSH, echo(401, "text/plain"))
    assert place.done(*MENDED, prompt=prompt)["reason"] == "repository_error"


def _visitors(place: Place) -> None:
    service, agent = place.service, PEOPLE["a user agent"]
    address, another = PEOPLE["a visitor's address"], PEOPLE["another visitor's"]
    page = f"https://docs.example.org/guide?q={PEOPLE['a search']}"
    events = [
        {"url": page, "ip": address, "userAgent": agent},
        {"url": page, "ip": another, "userAgent": agent, "nonsense": PEOPLE["a reader's"]},
        {"url": page, "ip": [address]},
    ]
    at = f"/v1/analytics/{service.project.id}/events"
    assert service.http.post(at, json=events).status_code == 202
    assert service.http.post(at, content=b"{" + address.encode()).status_code in (400, 415)
    seen = {"User-Agent": agent, "X-Forwarded-For": PEOPLE["a caller's"]}
    beacon = f"{service.url}/v1/collect/{service.project.site_id}"
    assert httpx.post(beacon, json={"u": page}, headers=seen, timeout=60).status_code == 202
    assert httpx.get(f"{beacon}/pixel.gif?u={page}", headers=seen, timeout=60).status_code == 200
    httpx.get(f"{service.url}/nothing?secret={place.service.key}&q={PEOPLE['a search']}", headers=seen, timeout=60)
    httpx.get(
        f"{service.url}/v2/agent/x/jobs", headers={**seen, "Authorization": f"Bearer {place.service.key}x"}, timeout=60
    )


def _people(url: str, provider: OidcProvider) -> None:
    """Signs in with the right password, with wrong ones until throttled, and with a provider, valid and invalid."""
    seen = {"X-Forwarded-For": PEOPLE["a caller's"], "User-Agent": PEOPLE["a user agent"]}
    email = PEOPLE["somebody's e-mail address"]
    for password in (PASSWORD, *[f"{PASSWORD}, not"] * 11):
        httpx.post(f"{url}/sign-in", data={"email": email, "password": password}, headers=seen, timeout=60)
    provider.claims = {"sub": "ada", "email": PEOPLE["another person"], "email_verified": True, "name": "Ada"}
    for lie in ({}, {"aud": "another"}):
        provider.lies = lie
        with httpx.Client(base_url=url, headers=seen, timeout=60) as browser:
            there = browser.get("/sign-in/oidc").headers["location"]
            browser.get(httpx.get(there, timeout=60).headers["location"])


def _faults(place: Place) -> None:
    """Causes database errors, whose messages must contain neither bound values nor stored ones."""
    desk, service = place.service.desk, place.service
    with desk.database.write() as tx:
        tx.execute(text("create unique index once on feedback (comment)"))
    sent = {"k": "feedback", "u": "https://docs.example.org/guide", "h": False, "c": PEOPLE["a reader's"]}
    seen = {"User-Agent": PEOPLE["a user agent"], "X-Forwarded-For": PEOPLE["a visitor's address"]}
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
    with proxied(lambda: line_to(server_url())) as proxy:
        url = f"postgresql://locked:the-wrong-one@127.0.0.1:{proxy.port}/postgres"
        _wait_until_refused(url)
        log = tmp_path / "log"
        settings = environment({"data": tmp_path / "data", "database_url": url, "log_level": "debug"})
        command = Command(Orders(("work",), settings, log))
        command.process.join(60)
    assert command.process.exitcode == 1
    assert log.read_text().strip() != ""
    told = Told([("the log", log.read_bytes())])
    assert told.leaks({"the password": "the-wrong-one", "the address": "127.0.0.1"}) == []


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
