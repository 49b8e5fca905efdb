"""Runs copydesk … in this process, and reads what it prints."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from tests.support.service import Service

Run = Callable[..., Result]


def run_command(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(app, arguments, **options)  # type: ignore[return-value]


def set_client_variables(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the variables with which commands find this service, its data folder and its project."""
    monkeypatch.setenv("COPYDESK_DATA", str(service.desk.settings.data))
    monkeypatch.setenv("COPYDESK_URL", service.url)
    monkeypatch.setenv("COPYDESK_API_KEY", service.key)
    monkeypatch.setenv("COPYDESK_PROJECT", service.project.id)


def parse_output(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
