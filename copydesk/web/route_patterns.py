"""The paths that are recognized before FastAPI routes a request: by authentication, limits, metrics, the fast path.

A test compares these patterns with the routes of the application.
"""

import re


def compile_route(template: str) -> re.Pattern[str]:
    """Returns the pattern of a route, for `fullmatch`. Each parameter of the route is a group with its name."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(template)))


HEALTH_PATH = "/healthz"
PROBE_PATHS = frozenset({HEALTH_PATH, "/readyz", "/metrics"})

MCP_PATH = "/mcp"
"""Needs an API key, which also determines the project."""

API_PREFIX = re.compile(r"/v[0-9]+/")
"""For `match`. Paths that need an API key of the project that they name, except COLLECTOR_PATH."""
PROJECT_PATH = re.compile(r"/v[0-9]+/[a-z]+/(?P<projectId>[^/]+)(/.*)?")

JOBS_PREFIX = ("/v1/agent/", "/v2/agent/", "/v1/workflow/")
CREATE_JOB_PATH = compile_route("/v2/agent/{projectId}/job")
CREATE_SESSION_PATH = compile_route("/v1/agent/{projectId}/job")
GET_SESSION_PATH = compile_route("/v1/agent/{projectId}/job/{id}")
GET_JOB_PATH = compile_route("/v2/agent/{projectId}/job/{id}")
JOB_EVENTS_PATH = compile_route("/v2/agent/{projectId}/job/{id}/events")

ANALYTICS_PREFIX = "/v1/analytics/"
SEND_EVENTS_PATH = compile_route("/v1/analytics/{projectId}/events")

COLLECTOR_PREFIX = "/v1/collect/"
BEACON_PATH = compile_route("/v1/collect/{siteId}")
COLLECTOR_PATH = re.compile(r"/v1/collect/[^/]+(?:/pixel\.gif)?")
"""The beacon and the pixel, which browsers call without an API key."""

WEBHOOK_PREFIX = "/webhooks/"
WEBHOOK_PATH = compile_route("/webhooks/{projectId}")

SIGN_IN_FORM_PATH = re.compile(r"/sign-in(?:/.*)?|/join/[^/]*|/unsubscribe/[^/]*")
"""Forms that need no session."""
PAGE_PREFIX = re.compile(r"/(?!v[0-9]+/|webhooks/|static/|(?:healthz|readyz|metrics|openapi\.json|beacon\.js)$)")
"""For `match`. Paths that people open in a browser, also those that do not exist. Errors there are HTML pages if the
request accepts HTML. Paths for programs are excluded."""
