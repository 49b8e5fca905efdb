"""The compose file: parsed by a library that knows the specification, with variables, checked against our rules."""

import re
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from copydesk.core.settings import Settings, env_variable, read_settings
from copydesk.jobs.execution.worker import STOP_TIMEOUT_SECONDS
from copydesk.web.server import GRACE_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text("utf-8")
EXAMPLE = (DEPLOY / ".env.example").read_text("utf-8")
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")
OF_PROVIDERS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"}
LOGS_OF_CLICKHOUSE = {
    f"{name}_log"
    for name in (
        "asynchronous_metric", "background_schedule_pool", "error", "latency", "metric", "opentelemetry_span", "part",
        "processors_profile", "query", "query_metric", "query_thread", "query_views", "text", "trace",
    )
}  # fmt: skip
"""System tables that ClickHouse's own configuration writes to permanently."""
FILLED_IN = {
    "POSTGRES_PASSWORD": "for-postgres",
    "CLICKHOUSE_PASSWORD": "for-clickhouse",
    "COPYDESK_SECRET_KEY": "ZQ" * 21 + "Y=",
    "COPYDESK_BASE_URL": "https://desk.example.org",
}


class MissingVariable(Exception):
    """A required variable is not set."""


def render_compose(given: dict[str, str]) -> dict[str, Any]:
    """Renders like Compose: parses, merges shared parts, substitutes variables, validates."""

    def value(found: re.Match[str]) -> str:
        if said := given.get(found["name"]):
            return said
        if found["kind"] == "?":
            raise MissingVariable(f"{found['name']} {found['rest']}")
        return found["rest"] or ""

    def fill_variables(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: fill_variables(each) for name, each in part.items()}
        if isinstance(part, list):
            return [fill_variables(each) for each in part]
        return VARIABLE.sub(value, part) if isinstance(part, str) else part

    from compose_spec import PyCompose  # slow to import

    read = PyCompose.from_yaml(yaml.safe_dump(fill_variables(yaml.safe_load(COMPOSE))))
    read.validate()
    return dict(read.to_dict())


SERVICES = render_compose(FILLED_IN)["services"]
OURS = ("app", "worker")


def test_compose_file_has_four_services() -> None:
    assert set(SERVICES) == {"app", "worker", "postgres", "clickhouse"}


@pytest.mark.parametrize("name", FILLED_IN)
def test_settings_without_a_safe_default_are_required(name: str) -> None:
    with pytest.raises(MissingVariable, match=name):
        render_compose({**FILLED_IN, name: ""})


def test_example_env_file_has_every_variable_and_no_secret() -> None:
    example = dict(line.split("=", 1) for line in EXAMPLE.splitlines() if line and not line.startswith("#"))
    assert {found["name"] for found in VARIABLE.finditer(COMPOSE)} - set(example) == {"COPYDESK_VERSION"}
    assert [name for name, value in example.items() if value and name.endswith(("_KEY", "_PASSWORD"))] == []
    assert (DEPLOY / ".gitignore").read_text("utf-8").split() == [".env", "settings.env"]


@pytest.mark.parametrize("part", OURS)
def test_every_variable_is_a_setting_and_all_are_accepted(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = SERVICES[part]["environment"]
    assert set(given) - OF_PROVIDERS - {env_variable(field) for field in Settings.model_fields} == set()
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    settings = read_settings()
    assert "for-postgres" in settings.database_url


def test_only_the_app_is_published_and_only_to_this_machine() -> None:
    assert {name: part["ports"] for name, part in SERVICES.items() if part.get("ports")} == {
        "app": ["127.0.0.1:8080:8080"]
    }
    assert {name: list(part["networks"]) for name, part in SERVICES.items()} == {
        "app": ["front", "stores"],
        "worker": ["front", "stores"],
        "postgres": ["stores"],
        "clickhouse": ["stores"],
    }
    assert yaml.safe_load(COMPOSE)["networks"]["stores"] == {"internal": True}


@pytest.mark.parametrize("part", OURS)
def test_our_containers_are_confined_and_wait_for_the_databases(part: str) -> None:
    service = SERVICES[part]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    waited_for = {name: how["condition"] for name, how in service["depends_on"].items()}
    assert waited_for == {"postgres": "service_healthy", "clickhouse": "service_healthy"}


@pytest.mark.parametrize("part", SERVICES)
def test_every_service_has_limits_restart_policy_and_pinned_image(part: str) -> None:
    service = SERVICES[part]
    limits = service["deploy"]["resources"]["limits"]
    assert limits["memory"]
    assert limits["cpus"]
    assert service["restart"] == "unless-stopped"
    assert re.search(r":\d", service["image"])
    assert service.get("healthcheck") or part == "app"  # the app uses the image's own health check


@pytest.mark.parametrize("part", OURS)
def test_stop_grace_period_allows_draining(part: str) -> None:
    drain = float(SERVICES[part]["environment"]["COPYDESK_DRAIN_SECONDS"])
    assert parse_duration(SERVICES[part]["stop_grace_period"]) > drain + GRACE_SECONDS + STOP_TIMEOUT_SECONDS


def parse_duration(duration: str) -> float:
    found = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration)
    assert found is not None, duration
    return timedelta(minutes=int(found[1] or 0), seconds=int(found[2] or 0)).total_seconds()


def test_worker_health_check_uses_its_metrics_port() -> None:
    worker = SERVICES["worker"]
    assert worker["environment"]["COPYDESK_METRICS_PORT"] in worker["healthcheck"]["test"]


def test_metrics_port_is_not_published() -> None:
    app = SERVICES["app"]
    apart = app["command"][app["command"].index("--metrics-port") + 1]
    assert not [port for port in app["ports"] if port.endswith(f":{apart}")]
    assert "ports" not in SERVICES["worker"]


def test_clickhouse_version_is_the_documented_and_tested_one() -> None:
    page = (DEPLOY.parent / "docs/clickhouse.md").read_text("utf-8")
    [documented] = re.findall(r"the engine of ClickHouse (\d+\.\d+)", page)
    assert SERVICES["clickhouse"]["image"] == f"clickhouse/clickhouse-server:{documented}"
    assert version("chdb-core").startswith(f"{documented}.")


def test_no_log_of_clickhouse_grows_for_ever() -> None:
    root = ElementTree.parse(DEPLOY / "clickhouse.xml").getroot()
    assert root.tag == "clickhouse"
    bounded = {log.tag for log in root if log.get("remove") or "INTERVAL" in (log.findtext("ttl") or "")}
    assert LOGS_OF_CLICKHOUSE - bounded == set()
