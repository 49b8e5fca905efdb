"""--json: every command names its fields in camel case, as the API does."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import typer

from copydesk import cli
from copydesk.analytics.classification.ip_ranges import format_range_lists, load_shipped_lists
from copydesk.core import clock
from tests.support.command_line import parse_output, run_command, set_client_variables
from tests.support.people import add_person
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.webhook_receiver import receive_webhooks

CAMEL_CASE = re.compile(r"[a-z][A-Za-z0-9]*")
NAMES_FROM_DATA = {
    "tables", "files", "analyticsRows", "rows",  # backups: tables and files
    "projectRoles",  # people: IDs of projects
}  # fmt: skip
"""Fields whose value is an object with names that are data."""
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HISTORY = '"date","visitors","pageviews","bounces","visits","visit_duration"\n2024-01-01,10,20,1,12,100\n'


class CommandLog:
    """Runs commands with --json and keeps what they print, by command."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}

    def run(self, command: str, *arguments: str, exit_code: int = 0, **options: Any) -> Any:
        result = run_command(*command.split(), *arguments, "--json", **options)
        assert result.exit_code == exit_code, (command, result.output, result.exception)
        self.outputs[command] = json.loads(result.stdout)
        return self.outputs[command]


def list_commands_with_json(command: Any, name: str = "") -> Iterator[str]:
    below = getattr(command, "commands", None)
    if below is None and any("--json" in each.opts for each in command.params):
        yield name
    for word, each in (below or {}).items():
        yield from list_commands_with_json(each, f"{name} {word}".strip())


def list_names(value: Any) -> Iterator[str]:
    """Yields the names of all fields at every depth."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from list_names(list(each.values()) if name in NAMES_FROM_DATA and isinstance(each, dict) else each)
    elif isinstance(value, list):
        for each in value:
            yield from list_names(each)


@pytest.mark.deep
def test_every_field_of_every_command_is_named_in_camel_case(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_client_variables(service, monkeypatch)
    monkeypatch.setenv("COPYDESK_WEBHOOK_ALLOW_PRIVATE", "true")
    log = CommandLog()
    run_project_commands(log, tmp_path)
    run_people_commands(log, service)
    run_job_commands(log)
    run_canceling_command(log, service.repository, tmp_path)
    run_automation_commands(log, service, tmp_path)
    run_analytics_commands(log, service, tmp_path)
    run_sharing_commands(log)
    run_store_commands(log, tmp_path, monkeypatch)
    assert set(list_commands_with_json(typer.main.get_command(cli.app))) - set(log.outputs) == set()
    wrong = {
        command: sorted({name for name in list_names(output) if not CAMEL_CASE.fullmatch(name)})
        for command, output in log.outputs.items()
    }
    assert {command: names for command, names in wrong.items() if names} == {}


@pytest.mark.deep
def test_names_in_json_are_accepted_as_settings(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    set_client_variables(service, monkeypatch)
    for name in ("branchPrefix", "branch_prefix", "branch-prefix"):
        changed = parse_output(run_command("project", "set", f"{name}={name}/", "--json"))
        assert changed["policy"]["branchPrefix"] == f"{name}/"


def run_project_commands(log: CommandLog, folder: Path) -> None:
    other = str(make_repository(folder / "other.git", {"a.md": b"a\n"}))
    created = log.run("project create", "Other", "--repo", other)["projectId"]
    for command in ("project list", "project show", "project check"):
        log.run(command)
    log.run("project set", "labels=docs", "branch_prefix=desk/")
    log.run("project audit")
    log.run("project delete", "--project", created, "--yes")
    assert run_command("secret", "set", "webhook_secret", input="a long random text").exit_code == 0
    log.run("secret list")
    log.run("context add", "code", "--repo", other)
    log.run("context list")
    log.run("key import", input="mint_" + "x1Y2z3" * 4, env={"COPYDESK_EXTRA_KEY_PREFIXES": "mint_"})
    key = log.run("key create", "--name", "laptop")["id"]
    log.run("key list")
    log.run("key revoke", key)
    log.run("doctor")


def run_people_commands(log: CommandLog, service: Service) -> None:
    log.run("person first-link")
    for email, role in (("ada@example.org", "admin"), ("bob@example.org", "viewer")):
        add_person(service.desk, email, role)
    log.run("person invite", "eve@example.org", "--project", service.project.id)
    log.run("person access", "bob@example.org", "editor")
    log.run("person list")
    log.run("person role", "bob@example.org", "editor")
    log.run("person reset", "bob@example.org")
    log.run("person remove", "bob@example.org", "--yes")


def run_job_commands(log: CommandLog) -> None:
    job = log.run("job create", "Replace colour with color", "--watch")["id"]
    log.run("job message", job, "Replace Hello with Welcome", "--watch")
    for command in ("job watch", "job get", "job archive", "job unarchive"):
        log.run(command, job)
    log.run("job list")
    log.run("pull list")
    log.run("pull show", "1")
    log.run("pull close", "1")
    log.run("job retry", job, "--watch")
    log.run("pull merge", "2")
    log.run("prompt create", "own", "Replace {{old}} with {{new}}.")
    log.run("prompt show", "own")
    log.run("prompt list")


def run_canceling_command(log: CommandLog, repository: Path, folder: Path) -> None:
    """Cancels a job of a service without workers, where it cannot end before."""
    with serve(folder / "idle", repository=repository, with_worker=False) as idle:
        job = idle.client.create_job("Fix the broken links.")["id"]
        names = {"COPYDESK_URL": idle.url, "COPYDESK_API_KEY": idle.key, "COPYDESK_PROJECT": idle.project.id}
        log.run("job cancel", job, env=names)


def run_automation_commands(log: CommandLog, service: Service, folder: Path) -> None:
    file = folder / "links.md"
    file.write_text("---\nkind: broken_links\n---\n")
    log.run("automation check", str(file))
    automation = log.run("automation create", "--kind", "broken_links")["id"]
    log.run("automation set", automation, "dailyLimit=3")
    service.client.wait(log.run("automation run", automation)["jobId"])
    log.run("automation runs", automation)
    log.run("automation show", automation)
    log.run("automation list")


def run_analytics_commands(log: CommandLog, service: Service, folder: Path) -> None:
    at = "2026-03-01T09:00:00Z"
    events: list[dict[str, Any]] = [
        {"path": "/a", "userAgent": FIREFOX, "ip": "192.0.2.7", "timestamp": at, "referrer": "https://example.org/"},
        {"path": "/gone", "status": 404, "userAgent": FIREFOX, "ip": "192.0.2.7", "timestamp": at},
        {"type": "search", "query": "install", "results": 0, "timestamp": at},
    ]
    assert service.client.send_events(events)["accepted"] == 3
    service.desk.feedback.add(service.project.id, "/a", True, "Good.", clock.now())
    reports = "visitors views agents referrers missing sections stale timeseries feedback searches"
    for report in reports.split():
        log.run(f"analytics {report}")
    log.run("analytics page", "/a")
    assert log.outputs["analytics feedback"]
    logs = folder / "access.log"
    lines = [
        f'192.0.2.7 - - [01/Mar/2026:09:00:00 +0000] "GET {path} HTTP/1.1" 200 1 "-" "{FIREFOX}"\n'
        for path in ("/b", "/logo.svg")
    ]
    logs.write_text("".join(lines))
    log.run("analytics import", str(logs))
    log.run("analytics export", "--output", str(folder / "views"), "--what", "all", "--format", "csv")
    log.run("analytics reclassify", "--dry-run")
    with ZipFile(folder / "plausible.zip", "w") as archive:
        archive.writestr("imported_visitors_1.csv", HISTORY)
    log.run("analytics import-history", str(folder / "plausible.zip"))
    log.run("analytics remove-history", "--yes")
    lists = [
        replace(each, fetched="9998-01-01", page=True) for each in load_shipped_lists()
    ]  # lists of web pages are not fetched
    (service.desk.settings.data / "ranges.json").write_text(format_range_lists(lists))
    log.run("analytics refresh-ranges")


def run_sharing_commands(log: CommandLog) -> None:
    with receive_webhooks() as receiver:
        webhook = log.run("webhook add", receiver.url)["id"]
        log.run("webhook change", webhook, "--event", "job.failed")
        log.run("webhook test", webhook)
    (delivery,) = log.run("webhook deliveries", webhook)
    assert run_command("webhook", "deliveries", webhook, "--delivery", delivery["id"], "--json").exit_code == 0
    log.run("webhook deliveries", webhook, "--delivery", delivery["id"])
    log.run("webhook redeliver", webhook, delivery["id"])
    for command in ("webhook list", "share list"):
        log.run(command)
    log.run("webhook rotate", webhook)
    log.run("webhook remove", webhook)
    share = log.run("share create", "--name", "board")["id"]
    log.run("share list")
    log.run("share revoke", share)


def run_store_commands(log: CommandLog, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.run("backup", str(folder / "copy"), "--with-secret-key")
    monkeypatch.setenv("COPYDESK_DATA", str(folder / "restored"))
    log.run("restore", str(folder / "copy"))
    log.run("migrate-stores", "--to-database", f"sqlite:///{folder / 'moved.db'}")
