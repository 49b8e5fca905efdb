"""The commands `copydesk automation …`, over a served API."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from copydesk.cli import app
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


def test_trigger_can_be_json(run: Run) -> None:
    trigger = {"type": "content_update", "paths": ["docs/**"]}
    made = create(run, "--name", "A", "--prompt", "Fix the broken links.", "--trigger", json.dumps(trigger))
    assert made["trigger"] == trigger


def test_invalid_field_is_reported(run: Run) -> None:
    assert create(run, "--kind", "broken_links")
    run("create", "--kind", "broken_links", "--cron", "61 * * * *", code=1)
    run("create", "--kind", "broken_links", "--set", "nonsense", code=1)
