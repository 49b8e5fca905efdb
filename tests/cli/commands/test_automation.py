"""The commands `copydesk automation …`, over a served API."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pygit2
import pytest
from typer.testing import CliRunner, Result

from copydesk.automations.kinds import Kind
from copydesk.cli import app
from tests.support.repositories import commit
from tests.support.service import Service

Run = Callable[..., str]


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COPYDESK_URL", service.url)
    monkeypatch.setenv("COPYDESK_API_KEY", service.key)
    monkeypatch.setenv("COPYDESK_PROJECT", service.project.id)

    def invoke(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["automation", *words])
        assert result.exit_code == code, result.output
        return result.output

    return invoke


def create(run: Run, *words: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(run("create", *words, "--json"))
    return made


@pytest.mark.deep
def test_automation_is_created_changed_run_and_deleted(run: Run, service: Service) -> None:
    made = create(
        run, "--name", "Spelling", "--prompt", "Replace colour with color.", "--cron", "0 6 * * 1", "--timezone",
        "Europe/Berlin", "--set", "dailyLimit=3", "--set", "paths=docs/**,README.md",
    )  # fmt: skip
    assert made["trigger"] == {"type": "schedule", "cron": "0 6 * * 1", "timezone": "Europe/Berlin"}
    assert (made["dailyLimit"], made["paths"]) == (3, ["docs/**", "README.md"])
    assert "schedule 0 6 * * 1 Europe/Berlin" in run("show", made["id"])
    changed = json.loads(run("set", made["id"], "enabled=false", "monthlyCostUsd=2.5", "--json"))
    assert (changed["enabled"], changed["monthlyCostUsd"], changed["nextRun"]) == (False, 2.5, None)
    started = json.loads(run("run", made["id"], "--json"))
    service.client.wait(started["jobId"])
    assert "review needed" in run("runs", made["id"])
    assert "review needed" in run("list")
    assert f"Deleted {made['id']}" in run("delete", made["id"])
    assert json.loads(run("list", "--json")) == {"automations": []}


def test_predefined_kind_needs_nothing_else(run: Run) -> None:
    assert create(run, "--kind", "broken_links")["name"] == "Broken links"


def test_help_lists_every_kind(run: Run) -> None:
    shown = run("create", "--help")
    assert [kind for kind in Kind if kind not in shown] == []


def test_trigger_can_be_json(run: Run) -> None:
    trigger = {"type": "content_update", "paths": ["docs/**"]}
    made = create(run, "--name", "A", "--prompt", "Fix the broken links.", "--trigger", json.dumps(trigger))
    assert made["trigger"] == trigger


def test_invalid_field_is_reported(run: Run) -> None:
    assert create(run, "--kind", "broken_links")
    run("create", "--kind", "broken_links", "--cron", "61 * * * *", code=1)
    run("create", "--kind", "broken_links", "--set", "nonsense", code=1)


@pytest.mark.deep
def test_list_tells_of_files_that_are_not_valid(run: Run, service: Service) -> None:
    bad = {".copydesk/automations/bad.md": b"---\nkind: typos\ndailyLimit: 0\n---\n"}
    good = {".copydesk/automations/links.md": b"---\nkind: broken_links\n---\n"}
    commit(pygit2.Repository(str(service.repository)), {**bad, **good})
    service.desk.projects.change(service.project.id, {"automation_files": "true"}, actor="test")
    service.desk.create_repository_watch().look()
    listed = run("list")
    assert "Broken links" in listed
    assert ".copydesk/automations/bad.md:3: dailyLimit: Input should be greater than" in listed
    body = json.loads(run("list", "--json"))
    assert body["files"]["files"][0]["problems"][0]["line"] == 3
    [automation] = body["automations"]
    assert ".copydesk/automations/links.md" in run("show", automation["id"])
    run("set", automation["id"], "enabled=true", code=1)


def test_check_needs_no_server_and_fails_for_a_wrong_file(tmp_path: Path) -> None:
    good, bad, link = (tmp_path / name for name in ("good.md", "bad.md", "link.md"))
    good.write_text("---\nkind: broken_links\nenabled: true\n---\n")
    bad.write_text("---\nkind: broken_links\nmode: force\n---\n")
    link.symlink_to(good)

    def check(*words: object) -> Result:
        return CliRunner().invoke(app, ["automation", "check", *map(str, words)])

    passed = check(good)
    assert (passed.exit_code, passed.stdout) == (0, f"{good}: ok: Broken links (schedule, enabled)\n")
    failed = check(good, bad, link, tmp_path / "none.md", tmp_path / "notes.txt", tmp_path)
    assert failed.exit_code == 1
    assert failed.stdout.splitlines() == [
        f"{good}: ok: Broken links (schedule, enabled)",
        f"{bad}:3: mode: Input should be 'pull_request' or 'merge'.",
        f"{link}:1: This is not a regular file. Symbolic links, folders and submodules are not read.",
        f"{tmp_path}/none.md:1: The file cannot be read: No such file or directory.",
        f"{tmp_path}/notes.txt:1: The name of the file cannot be used. Name it with letters, digits, dots, hyphens and "
        "underscores, such as weekly-links.md.",
        f"{tmp_path}:1: The name of the file cannot be used. Name it with letters, digits, dots, hyphens and "
        "underscores, such as weekly-links.md.",
    ]
    [told] = json.loads(check(bad, "--json").stdout)["files"]
    assert told["problems"] == [{"line": 3, "message": "mode: Input should be 'pull_request' or 'merge'."}]
    assert json.loads(check(good, "--json").stdout)["files"][0]["automation"]["kind"] == "broken_links"


def test_unknown_context_repository_is_named(run: Run) -> None:
    create(run, "--kind", "broken_links")
    words = ["automation", "create", "--kind", "broken_links", "--set", "context=sdk"]
    refused = CliRunner().invoke(app, words).exception
    assert "This project has no context repository 'sdk'. It has none: add it first" in str(refused)


def test_unknown_repository_of_a_trigger_is_named(run: Run) -> None:
    trigger = json.dumps({"type": "code_change", "repositories": ["sdk"]})
    words = ["automation", "create", "--name", "A", "--prompt", "Replace a with b.", "--trigger", trigger]
    refused = CliRunner().invoke(app, words).exception
    assert "This project has no context repository 'sdk'. It has none: add it first" in str(refused)
