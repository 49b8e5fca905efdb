"""The patterns that middleware uses before routing agree with the routes of the application."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from copydesk.web import route_patterns
from copydesk.web.app import create_app
from copydesk.web.middleware.key_cache import required_scope
from copydesk.web.middleware.request_gate import (
    MAX_BEACON_BYTES,
    MAX_BODY_BYTES,
    MAX_EVENTS_BYTES,
    MAX_WEBHOOK_BYTES,
    max_body_bytes,
)
from copydesk.web.middleware.request_metrics import classify_request
from tests.support import migrated_databases
from tests.support.dashboard import list_dashboard_routes

JOB = "/v2/agent/{projectId}/job"
SESSION = "/v1/agent/{projectId}/job"
ANALYTICS = "/v1/analytics/{projectId}"
TEMPLATES = "/v2/agent/{projectId}/templates"
WEBHOOKS = "/v2/agent/{projectId}/webhooks"
AUTOMATIONS = "/v2/agent/{projectId}/automations"
KINDS = {
    ("POST", JOB): "create",
    ("GET", f"{JOB}/{{id}}"): "poll",
    ("GET", f"{JOB}/{{id}}/events"): "live",
    ("POST", f"{JOB}/{{id}}/message"): "jobs",
    ("POST", f"{JOB}/{{id}}/cancel"): "jobs",
    ("POST", f"{JOB}/{{id}}/archive"): "jobs",
    ("POST", f"{JOB}/{{id}}/retry"): "jobs",
    ("POST", f"{JOB}/{{id}}/unarchive"): "jobs",
    ("GET", f"{JOB}/{{id}}/diff"): "jobs",
    ("GET", "/v2/agent/{projectId}/jobs"): "jobs",
    ("GET", "/v2/agent/{projectId}/models"): "jobs",
    ("GET", "/v2/agent/{projectId}/key"): "jobs",
    ("POST", SESSION): "create",
    ("GET", f"{SESSION}/{{id}}"): "poll",
    ("GET", "/v1/agent/{projectId}/jobs"): "jobs",
    ("GET", "/v2/agent/{projectId}/context"): "jobs",
    ("POST", "/v2/agent/{projectId}/context"): "jobs",
    ("DELETE", "/v2/agent/{projectId}/context/{name}"): "jobs",
    ("GET", TEMPLATES): "jobs",
    ("POST", TEMPLATES): "jobs",
    ("GET", f"{TEMPLATES}/{{templateName}}"): "jobs",
    ("PATCH", f"{TEMPLATES}/{{templateName}}"): "jobs",
    ("DELETE", f"{TEMPLATES}/{{templateName}}"): "jobs",
    ("POST", f"{TEMPLATES}/{{templateName}}/preview"): "jobs",
    ("POST", f"{TEMPLATES}/{{templateName}}/job"): "jobs",
    ("GET", WEBHOOKS): "jobs",
    ("POST", WEBHOOKS): "jobs",
    ("GET", f"{WEBHOOKS}/{{webhookId}}"): "jobs",
    ("PATCH", f"{WEBHOOKS}/{{webhookId}}"): "jobs",
    ("DELETE", f"{WEBHOOKS}/{{webhookId}}"): "jobs",
    ("POST", f"{WEBHOOKS}/{{webhookId}}/rotate"): "jobs",
    ("POST", f"{WEBHOOKS}/{{webhookId}}/test"): "jobs",
    ("GET", f"{WEBHOOKS}/{{webhookId}}/deliveries"): "jobs",
    ("GET", f"{WEBHOOKS}/{{webhookId}}/deliveries/{{deliveryId}}"): "jobs",
    ("POST", f"{WEBHOOKS}/{{webhookId}}/deliveries/{{deliveryId}}/redeliver"): "jobs",
    ("GET", AUTOMATIONS): "jobs",
    ("POST", AUTOMATIONS): "jobs",
    ("GET", f"{AUTOMATIONS}/files"): "jobs",
    ("GET", f"{AUTOMATIONS}/{{automationId}}"): "jobs",
    ("PATCH", f"{AUTOMATIONS}/{{automationId}}"): "jobs",
    ("DELETE", f"{AUTOMATIONS}/{{automationId}}"): "jobs",
    ("POST", f"{AUTOMATIONS}/{{automationId}}/run"): "jobs",
    ("GET", f"{AUTOMATIONS}/{{automationId}}/runs"): "jobs",
    ("POST", "/v1/workflow/{projectId}/{automationId}/trigger"): "jobs",
    ("POST", f"{ANALYTICS}/events"): "events",
    ("GET", f"{ANALYTICS}/visitors"): "export",
    ("GET", f"{ANALYTICS}/views"): "export",
    ("GET", f"{ANALYTICS}/agents"): "export",
    ("GET", f"{ANALYTICS}/missing"): "export",
    ("GET", f"{ANALYTICS}/stale"): "export",
    ("POST", f"{ANALYTICS}/stale/refresh"): "export",
    ("GET", f"{ANALYTICS}/referrers"): "export",
    ("GET", f"{ANALYTICS}/sections"): "export",
    ("GET", f"{ANALYTICS}/pages/{{path}}"): "export",
    ("GET", f"{ANALYTICS}/history"): "export",
    ("GET", f"{ANALYTICS}/history/pages"): "export",
    ("GET", f"{ANALYTICS}/timeseries"): "export",
    ("GET", f"{ANALYTICS}/feedback"): "export",
    ("GET", f"{ANALYTICS}/feedback/by-page"): "export",
    ("PATCH", f"{ANALYTICS}/feedback/{{feedbackId}}"): "export",
    ("GET", f"{ANALYTICS}/searches"): "export",
    ("GET", f"{ANALYTICS}/assistant"): "export",
    ("GET", f"{ANALYTICS}/assistant/caller-stats"): "export",
    ("GET", f"{ANALYTICS}/assistant/threads/{{threadId}}"): "export",
    ("GET", f"{ANALYTICS}/shares"): "export",
    ("POST", f"{ANALYTICS}/shares"): "export",
    ("DELETE", f"{ANALYTICS}/shares/{{shareId}}"): "export",
    ("POST", "/v1/collect/{siteId}"): "beacon",
    ("OPTIONS", "/v1/collect/{siteId}"): "beacon",
    ("GET", "/v1/collect/{siteId}/pixel.gif"): "beacon",
    ("HEAD", "/v1/collect/{siteId}/pixel.gif"): "beacon",
    ("POST", "/webhooks/{projectId}"): "webhook",
    ("POST", "/mcp"): "mcp",
    ("GET", "/mcp"): "mcp",
    ("DELETE", "/mcp"): "mcp",
    ("GET", "/healthz"): "probe",
    ("GET", "/readyz"): "probe",
    ("GET", "/metrics"): "probe",
    ("GET", "/beacon.js"): "page",
    ("GET", "/docs"): "page",
    ("GET", "/openapi.json"): "page",
    ("HEAD", "/openapi.json"): "page",
    ("GET", "/static/{name}"): "page",
    ("GET", "/favicon.ico"): "page",
    ("GET", "/review/{token}/pulls/{number}"): "page",
    ("GET", "/share/{token}"): "page",
    ("GET", "/share/{token}/agents"): "page",
    ("GET", "/share/{token}/missing"): "page",
    ("GET", "/share/{token}/searches"): "page",
    ("GET", "/share/{token}/badge.svg"): "page",
    ("GET", "/share/{token}/number.json"): "page",
    ("GET", "/unsubscribe/{token}"): "page",
    ("POST", "/unsubscribe/{token}"): "page",
}
"""The kind of each route outside the dashboard. All routes of the dashboard are pages."""

MATCHED_ROUTES = {
    "HEALTH_PATH": {"/healthz"},
    "MCP_PATH": {"/mcp"},
    "PROBE_PATHS": {"/healthz", "/readyz", "/metrics"},
    "CREATE_JOB_PATH": {JOB},
    "GET_JOB_PATH": {f"{JOB}/{{id}}"},
    "CREATE_SESSION_PATH": {SESSION},
    "GET_SESSION_PATH": {f"{SESSION}/{{id}}"},
    "JOB_EVENTS_PATH": {f"{JOB}/{{id}}/events"},
    "SEND_EVENTS_PATH": {f"{ANALYTICS}/events"},
    "COLLECTOR_PREFIX": {"/v1/collect/{siteId}", "/v1/collect/{siteId}/pixel.gif"},
    "COLLECTOR_PATH": {"/v1/collect/{siteId}", "/v1/collect/{siteId}/pixel.gif"},
    "BEACON_PATH": {"/v1/collect/{siteId}"},
    "WEBHOOK_PREFIX": {"/webhooks/{projectId}"},
    "WEBHOOK_PATH": {"/webhooks/{projectId}"},
    "SIGN_IN_FORM_PATH": {
        *("/sign-in", "/sign-in/forgot", "/sign-in/oidc", "/sign-in/oidc/back", "/join/{secret}"),
        "/unsubscribe/{token}",
    },
}
"""The routes that each pattern matches, and no others."""
PATTERNS_OF_AREAS = {"API_PREFIX", "PROJECT_PATH", "JOBS_PREFIX", "ANALYTICS_PREFIX", "PAGE_PREFIX"}
"""Patterns of whole areas, which other tests compare with the routes."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    folder = tmp_path_factory.mktemp("routes")
    desk = open_desk_lazily(Settings(data=folder, database_url=migrated_databases.new_sqlite(folder)))
    yield create_app(desk)
    desk.close()


def list_routes(app: FastAPI) -> list[tuple[str, str]]:
    """Returns the method and the path of every route, as the OpenAPI document spells it."""
    return [
        (method, str(route.path).replace(":path}", "}"))
        for route in iter_route_contexts(app.routes)
        for method in sorted(route.methods or ())
    ]


def example(path: str) -> str:
    return re.sub(r"{\w+(:\w+)?}", "example", path)


def matches(name: str, path: str) -> bool:
    pattern: Any = getattr(route_patterns, name)
    if isinstance(pattern, re.Pattern):
        return bool(pattern.match(path) if name.endswith("_PREFIX") else pattern.fullmatch(path))
    if name.endswith("_PREFIX"):
        return path.startswith(pattern)
    return path == pattern if isinstance(pattern, str) else path in pattern


def find_matches(app: FastAPI, name: str) -> set[str]:
    return {path for _, path in list_routes(app) if matches(name, example(path))}


def test_every_pattern_is_compared_with_the_routes() -> None:
    names = {name for name in vars(route_patterns) if name.endswith(("_PATH", "_PATHS", "_PREFIX"))}
    assert names == MATCHED_ROUTES.keys() | PATTERNS_OF_AREAS


@pytest.mark.parametrize("name", MATCHED_ROUTES)
def test_pattern_matches_its_routes_and_no_others(app: FastAPI, name: str) -> None:
    assert find_matches(app, name) == MATCHED_ROUTES[name]


@pytest.mark.deep
def test_gate_requires_a_key_for_exactly_the_routes_that_are_documented_to_need_one(app: FastAPI) -> None:
    documented = {
        path
        for path, operations in app.openapi()["paths"].items()
        if any("security" in operation for operation in operations.values())
    }
    assert find_matches(app, "API_PREFIX") - find_matches(app, "COLLECTOR_PATH") == documented
    assert len(documented) >= 16


def test_gate_finds_the_project_of_every_route_that_needs_a_key(app: FastAPI) -> None:
    for path in find_matches(app, "API_PREFIX") - find_matches(app, "COLLECTOR_PATH"):
        match = route_patterns.PROJECT_PATH.fullmatch(path.replace("{projectId}", "prj_1"))
        assert match, path
        assert match["projectId"] == "prj_1"


def test_every_route_that_is_not_for_programs_is_a_page(app: FastAPI) -> None:
    programs = {"/openapi.json", "/beacon.js", "/static/{name}", "/healthz", "/readyz", "/metrics"}
    programs |= find_matches(app, "API_PREFIX") | find_matches(app, "WEBHOOK_PREFIX")
    assert find_matches(app, "PAGE_PREFIX") == {path for _, path in list_routes(app)} - programs


def test_every_route_is_classified(app: FastAPI) -> None:
    dashboard = {route.path for route in list_dashboard_routes()}
    kinds = {(method, path): classify_request(method, example(path)) for method, path in list_routes(app)}
    assert {route: kind for route, kind in kinds.items() if route[1] not in dashboard} == KINDS
    assert {kind for route, kind in kinds.items() if route[1] in dashboard} == {"page"}


def test_prefixes_of_jobs_and_analytics_match_their_routes(app: FastAPI) -> None:
    jobs, analytics = find_matches(app, "JOBS_PREFIX"), find_matches(app, "ANALYTICS_PREFIX")
    assert jobs | analytics == find_matches(app, "API_PREFIX") - find_matches(app, "COLLECTOR_PATH")
    assert jobs == {path for path in jobs if re.match(r"(?:/v[12]/agent|/v1/workflow)/{projectId}/", path)}
    assert analytics == {path for path in analytics if path.startswith(f"{ANALYTICS}/")}


def test_body_limit_of_every_route(app: FastAPI) -> None:
    larger = {"/webhooks/{projectId}": MAX_WEBHOOK_BYTES, f"{ANALYTICS}/events": MAX_EVENTS_BYTES}
    smaller = MATCHED_ROUTES["SIGN_IN_FORM_PATH"] | MATCHED_ROUTES["COLLECTOR_PATH"]
    for method, path in list_routes(app):
        expected = larger.get(path, MAX_BEACON_BYTES if path in smaller else MAX_BODY_BYTES)
        if method in ("GET", "HEAD", "OPTIONS"):
            expected = MAX_BEACON_BYTES
        assert max_body_bytes(method, example(path)) == expected, (method, path)


def test_only_sending_events_needs_the_scope_of_events(app: FastAPI) -> None:
    scopes = {route: required_scope(route[0], example(route[1])) for route in list_routes(app)}
    assert [route for route, scope in scopes.items() if scope == "events"] == [("POST", f"{ANALYTICS}/events")]


def test_route_template_matches_whole_segments_only() -> None:
    pattern = route_patterns.compile_route("/v1/{projectId}/file.gif")
    match = pattern.fullmatch("/v1/prj_1/file.gif")
    assert match
    assert match["projectId"] == "prj_1"
    for path in ("/v1//file.gif", "/v1/a/b/file.gif", "/v1/a/fileXgif", "/v1/a/file.gif/", "/v1/a/file.gif\n"):
        assert not pattern.fullmatch(path), path
