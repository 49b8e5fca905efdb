"""Every route requires a key: the routes come from the application itself, so none is missed."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from fastapi.routing import iter_route_contexts

from copydesk.analytics.interactions.conversations import NewQuestion
from copydesk.core import clock
from copydesk.core.ids import new_id, new_key
from copydesk.prompts.template import build_template
from copydesk.web.app import create_app
from copydesk.webhooks.endpoints import Endpoints
from tests.support.dashboard import list_dashboard_routes as dashboard
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

PUBLIC = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("HEAD", "/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/favicon.ico"),
    ("GET", "/static/{name}"),
    ("GET", "/review/{token}/pulls/{number}"),
    ("GET", "/share/{token}"),
    ("GET", "/share/{token}/agents"),
    ("GET", "/share/{token}/missing"),
    ("GET", "/share/{token}/searches"),
    ("GET", "/share/{token}/badge.svg"),
    ("GET", "/share/{token}/number.json"),
    ("GET", "/unsubscribe/{token}"),
    ("POST", "/unsubscribe/{token}"),
    ("POST", "/webhooks/{projectId}"),
    ("GET", "/beacon.js"),
    ("POST", "/v1/collect/{siteId}"),
    ("OPTIONS", "/v1/collect/{siteId}"),
    ("GET", "/v1/collect/{siteId}/pixel.gif"),
    ("HEAD", "/v1/collect/{siteId}/pixel.gif"),
}
"""The routes without a key, listed deliberately."""
OPENED_OTHERWISE = {(method, path) for method, path in PUBLIC if "{" in path}
"""Authenticated by the token in the link, a signature with the webhook secret, or (for views only) a site's id."""

BODY = {"prompt": "Fix the typos"}
NOT_A_JOB = "job_00000000000000000000000000"
NOT_FEEDBACK = "fb_00000000000000000000000000"
THREAD = "thread-1"
CONTEXT = "code"
TEMPLATE = "own"
NOT_A_SHARE = "share_00000000000000000000000000"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves one Copydesk for all tests, which change nothing. Without a worker, jobs keep their state."""
    folder = tmp_path_factory.mktemp("isolation")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        question = NewQuestion(THREAD, "How do I sign in?", "With a key.", clock.now())
        automation = {"name": "Spelling", "prompt": "Fix the typos", "trigger": {"type": "api"}}
        running.desk.automations.create(running.project, automation, actor="test")
        running.desk.prompts.create(running.project.id, build_template(TEMPLATE, "Own", "", "Fix it."), actor="test")
        running.desk.conversations.add_all(running.project.id, [question])
        endpoints = Endpoints(running.desk.database, running.desk.secrets, allow_private=True)
        webhook = endpoints.add(running.project.id, "http://127.0.0.1:1/", actor="test").endpoint
        running.desk.webhooks.log.send_test(running.project.id, webhook.id, actor="test")
        sent = running.client.send_events([{"url": "https://docs.example.com/a/b", "userAgent": "Firefox"}])
        assert sent["accepted"] == 1
        yield running


def list_routes(service: Service) -> list[tuple[str, str]]:
    """Lists (method, path) of every route, including nested routers."""
    found, of_people = [], {route.path for route in dashboard()}
    for route in iter_route_contexts(create_app(service.desk).routes):
        assert route.path is not None, f"{route} has neither path nor methods; teach this test about its kind"
        assert route.methods, f"{route.path} has no methods; teach this test about its kind"
        # authenticated by a session; tests/web/dashboard/auth/test_roles.py covers these
        if route.path not in of_people:
            found += [(method, route.path.replace(":path}", "}")) for method in sorted(route.methods)]
    return found


def list_closed_routes(service: Service) -> list[tuple[str, str]]:
    closed = [route for route in list_routes(service) if route not in PUBLIC]
    assert {path.split("/")[1] for _, path in closed} == {"v1", "v2", "mcp"}
    assert len(closed) >= 16
    return closed


def list_project_routes(service: Service) -> list[tuple[str, str]]:
    """Lists the routes whose path names the project. That of /mcp is the key's own; tests/mcp covers it."""
    return [(method, path) for method, path in list_closed_routes(service) if path != "/mcp"]


def list_job_routes(service: Service) -> list[tuple[str, str]]:
    of_a_job = [(method, path) for method, path in list_closed_routes(service) if "{id}" in path]
    assert {path.rpartition("/")[2] for _, path in of_a_job} >= {
        "{id}", "message", "cancel", "archive", "unarchive", "diff", "events",
    }  # fmt: skip
    return of_a_job


def call_with_key(
    service: Service, method: str, path: str, *, key: str | None, project: str | None = None, job: str = NOT_A_JOB
) -> httpx.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return send_request(service, method, path, headers, project, job)


def send_request(
    service: Service, method: str, path: str, headers: dict[str, str], project: str | None = None, job: str = NOT_A_JOB
) -> httpx.Response:
    where = path.replace("{projectId}", project or service.project.id).replace("{id}", job)
    [existing] = service.desk.automations.list_for_project(service.project.id)
    where = where.replace("{automationId}", existing.automation.id)
    where = where.replace("{feedbackId}", NOT_FEEDBACK).replace("{threadId}", THREAD).replace("{name}", CONTEXT)
    where = where.replace("{templateName}", TEMPLATE)
    where = where.replace("{shareId}", NOT_A_SHARE).replace("{path}", "a/b")
    [webhook] = service.desk.webhooks.endpoints.list_for_project(service.project.id)
    [delivery], _ = service.desk.webhooks.log.list_page(service.project.id, webhook.id)
    where = where.replace("{webhookId}", webhook.id).replace("{deliveryId}", delivery.id)
    assert "{" not in where, f"{path} has a parameter that this test cannot fill in yet"
    body = BODY if method in ("POST", "PUT", "PATCH") else None
    return client_without_key().request(method, service.url + where, headers=headers, json=body)


@cache
def client_without_key() -> httpx.Client:
    """Returns a client without a key."""
    return httpx.Client(timeout=60)


def body_without_request_id(response: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    assert body.pop("requestId") == response.headers["x-request-id"]
    return body


def test_every_route_needs_a_key_or_is_listed_as_public(service: Service) -> None:
    closed = re.compile(r"/mcp|/v1/(?:analytics|workflow)/\{projectId\}/.+|/v[12]/agent/\{projectId\}/.+")
    assert {(method, path) for method, path in list_routes(service) if not closed.fullmatch(path)} == PUBLIC


@pytest.mark.deep
def test_public_routes_answer_without_a_key(service: Service) -> None:
    for method, path in PUBLIC - OPENED_OTHERWISE:
        assert client_without_key().request(method, service.url + path).status_code == 200, path


def test_review_page_needs_the_token_of_its_link(service: Service) -> None:
    for token, number in (("guess", 1), ("", 1), ("%", 1), ("guess", 10**30), ("a" * 5000, 1), ("\x00", 1), ("x", -1)):
        link = f"{service.url}/review/{httpx.QueryParams({'t': token})}".replace("t=", "", 1) + f"/pulls/{number}"
        response = client_without_key().get(link)
        assert response.status_code in (400, 404), link
        assert response.headers["content-type"] == "application/json"


@pytest.mark.deep
def test_webhook_without_valid_signature_is_refused_for_any_project(service: Service) -> None:
    for project in (service.project.id, "proj_nope", "%00", "a" * 3000):
        for headers in ({}, {"X-Hub-Signature-256": "sha256=00"}, {"X-Gitlab-Token": ""}, {"X-Gitea-Signature": "x"}):
            response = client_without_key().post(f"{service.url}/webhooks/{project}", json={}, headers=headers)
            assert (response.status_code, body_without_request_id(response)["code"]) == (401, "signature_rejected"), (
                project
            )


def test_no_route_answers_without_a_key(service: Service) -> None:
    for method, path in list_closed_routes(service):
        response = call_with_key(service, method, path, key=None)
        assert (response.status_code, body_without_request_id(response)["code"]) == (401, "key_missing"), (method, path)
        assert response.headers["www-authenticate"].startswith("Bearer")


def test_no_route_accepts_an_invalid_key(service: Service) -> None:
    revoked, revoked_secret = service.desk.keys.create(service.project.id, actor="test")
    service.desk.keys.revoke(revoked.id, actor="test")
    expired = service.new_key(expires_in=-1)
    swapped = service.key[:10] + service.key[11] + service.key[10] + service.key[12:]
    typo = swapped if swapped != service.key else service.key[:-1] + "_"
    bad = {
        "revoked": revoked_secret,
        "expired": expired,
        "unknown": new_key(),
        "mistyped": typo,
        "cut off": service.key[:-1],
        "too long": service.key + "0",
        "another case": service.key.swapcase(),
        "no prefix": service.key.removeprefix("desk_"),
        "only a prefix": "desk_",
        "quoted": f'"{service.key}"',
        "SQL": "desk_' or '1'='1",
        "endless": "desk_" + "a" * 30_000,
    }
    for method, path in list_closed_routes(service):
        for kind, key in bad.items():
            response = call_with_key(service, method, path, key=key)
            assert (response.status_code, body_without_request_id(response)["code"]) == (401, "key_rejected"), (
                kind,
                method,
                path,
            )
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert key == "desk_" or key not in response.text


@pytest.mark.deep
def test_no_route_accepts_another_authentication_scheme(service: Service) -> None:
    for method, path in list_closed_routes(service):
        for scheme in ("Basic", "Token", "Digest"):
            response = send_request(service, method, path, {"Authorization": f"{scheme} {service.key}"})
            assert response.status_code == 401, (scheme, method, path)
            assert response.headers["www-authenticate"].startswith("Bearer")


def test_non_text_authorization_returns_401(service: Service) -> None:
    for value in (b"Bearer \xff\xfe", b"Bearer desk_\xc3\xa9" + b"a" * 36, b"\xff", b"Bearer"):
        response = client_without_key().get(service.url + service.at("/jobs"), headers={b"Authorization": value})
        assert response.status_code == 401, value


def test_another_project_looks_exactly_like_one_that_does_not_exist(service: Service) -> None:
    other = service.another_project()
    for method, path in list_project_routes(service):
        theirs = call_with_key(service, method, path, key=service.key, project=other.project.id)
        for nowhere in (new_id("proj"), "x", "%00", "é", other.project.id.upper()):
            none = call_with_key(service, method, path, key=service.key, project=nowhere)
            assert (theirs.status_code, none.status_code) == (404, 404), (method, path, nowhere)
            assert body_without_request_id(theirs) == body_without_request_id(none)
            assert set(theirs.headers) == set(none.headers)
        for no_project in ("..", "%2e%2e", "a%2Fb"):
            none = call_with_key(service, method, path, key=service.key, project=no_project)
            assert none.status_code == 404, (method, path, no_project)
            assert none.json()["code"] in ("not_found", "project_not_found")


def test_path_encodings_do_not_bypass_the_key(service: Service) -> None:
    inside = service.at("/jobs")
    for path in (
        "/" + inside, inside.replace("/v2", "/%762"), inside.replace("/v2", "/V2"), inside.replace("/v2/", "/v2//"),
        inside + "/", inside.replace("/agent", "/./agent"), "/docs/.." + inside, "/docs/%2e%2e" + inside,
        "/static/..%2f" + inside[1:], inside.replace("/jobs", "/jobs;x=1"), inside + "%00", inside + "%0d%0aX: y",
    ):  # fmt: skip
        answer = client_without_key().get(httpx.URL(service.url).copy_with(raw_path=path.encode()))
        assert answer.status_code in (400, 401, 404), path
        assert "jobs" not in answer.json(), path


@pytest.mark.deep
def test_job_of_another_project_returns_404_and_is_unchanged(service: Service) -> None:
    other = service.another_project()
    theirs = other.client.create_job("A secret prompt of theirs")
    before = other.client.get_job(theirs["id"]), other.client.events(theirs["id"])
    missing = {}
    for method, path in list_job_routes(service):
        response = call_with_key(service, method, path, key=service.key, job=theirs["id"])
        none = call_with_key(service, method, path, key=service.key, job=new_id("job"))
        assert (response.status_code, none.status_code) == (404, 404), (method, path)
        missing[path] = body_without_request_id(response)
        assert missing[path] == body_without_request_id(none)
        assert missing[path]["code"] == "job_not_found"
        assert "secret" not in response.text
    assert (other.client.get_job(theirs["id"]), other.client.events(theirs["id"])) == before
    assert theirs["id"] not in [job["id"] for job in service.client.list_jobs(limit=100)["jobs"]]
    page = service.client.list_jobs(cursor=theirs["id"])
    assert theirs["id"] not in [job["id"] for job in page["jobs"]]


def test_idempotency_keys_are_per_project(service: Service) -> None:
    other = service.another_project()
    theirs = other.client.create_job("Theirs", idempotency_key="the-same")
    ours = service.client.create_job("Ours", idempotency_key="the-same")
    assert ours["id"] != theirs["id"]


def test_read_key_can_only_read(service: Service) -> None:
    key = service.new_key(scopes=["read"])
    job = service.client.create_job("Leave me alone")
    for method, path in list_project_routes(service):
        if path.endswith("/events"):
            continue  # stays open while the job is active; its scope is that of every GET
        response = call_with_key(service, method, path, key=key, job=job["id"])
        if method == "GET":
            assert response.status_code == 200, path
        else:
            assert (response.status_code, body_without_request_id(response)["code"]) == (403, "scope_missing"), (
                method,
                path,
            )
    for method in ("PUT", "PATCH", "DELETE", "TRACE"):
        response = call_with_key(service, method, "/v2/agent/{projectId}/jobs", key=key)
        assert response.status_code == 403, method
    assert service.client.get_job(job["id"]) == job


def test_a_write_key_reads_too(service: Service) -> None:
    key = service.new_key(scopes=["write"])
    assert call_with_key(service, "GET", "/v2/agent/{projectId}/jobs", key=key).status_code == 200
    assert call_with_key(service, "POST", "/v2/agent/{projectId}/job", key=key).status_code == 201


EVENTS = "/v1/analytics/{projectId}/events"


def test_events_key_can_only_send_events(service: Service) -> None:
    key = service.new_key(scopes=["events"])
    job = service.client.create_job("Leave me alone")
    for method, path in list_closed_routes(service):
        if (method, path) != ("POST", EVENTS):
            response = call_with_key(service, method, path, key=key, job=job["id"])
            assert (response.status_code, body_without_request_id(response)["code"]) == (403, "scope_missing"), (
                method,
                path,
            )
    for method, path in (
        ("GET", EVENTS),
        ("PUT", EVENTS),
        ("POST", f"{EVENTS}/"),
        ("POST", f"{EVENTS}%2f..%2fvisitors"),
        ("POST", f"/v2/agent/{{projectId}}/job/{job['id']}/events"),
        ("POST", "/v1/analytics/{projectId}/../../../v2/agent/{projectId}/job/events"),
    ):
        response = call_with_key(service, method, path, key=key)
        assert (response.status_code, body_without_request_id(response)["code"]) == (403, "scope_missing"), (
            method,
            path,
        )
    assert service.client.get_job(job["id"]) == job
    sent = client_without_key().post(
        f"{service.url}/v1/analytics/{service.project.id}/events",
        headers={"Authorization": f"Bearer {key}"},
        json={"path": "/a", "userAgent": "Mozilla/5.0", "ip": "192.0.2.7"},
    )
    assert (sent.status_code, sent.json()["accepted"]) == (202, 1)
    other = service.another_project()
    assert call_with_key(service, "POST", EVENTS, key=key, project=other.project.id).status_code == 404


@pytest.mark.parametrize(
    ("scopes", "statuses"),
    [(["read"], (200, 403)), (["read", "events"], (200, 202)), (["write"], (200, 202)), ([], (200, 202))],
)
def test_scopes_decide_who_reads_and_who_sends_events(
    service: Service, scopes: list[str], statuses: tuple[int, int]
) -> None:
    key = service.new_key(scopes=scopes)
    read = call_with_key(service, "GET", "/v2/agent/{projectId}/jobs", key=key)
    assert (read.status_code, call_with_key(service, "POST", EVENTS, key=key).status_code) == statuses


@pytest.mark.deep
def test_key_with_an_allow_list_is_refused_from_other_addresses(service: Service) -> None:
    elsewhere = service.new_key(allow=["192.0.2.0/24", "2001:db8::/32", "127.0.0.2"])
    here = service.new_key(allow=["192.0.2.0/24", "127.0.0.1"])
    forged = {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7", "X-Real-IP": "192.0.2.7"}
    for method, path in list_closed_routes(service):
        for extra in ({}, forged):
            response = send_request(service, method, path, {"Authorization": f"Bearer {elsewhere}", **extra})
            assert (response.status_code, body_without_request_id(response)["code"]) == (403, "address_refused"), (
                method,
                path,
            )
    assert call_with_key(service, "GET", "/v2/agent/{projectId}/jobs", key=here).status_code == 200


def test_nearest_untrusted_forwarded_address_is_the_client(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False, trusted_proxies="127.0.0.1") as service:
        bearer = {"Authorization": f"Bearer {service.new_key(allow=['192.0.2.0/24'])}"}
        for chain, status in (
            ("192.0.2.7", 200),
            ("203.0.113.9, 192.0.2.7", 200),
            ("192.0.2.7, 203.0.113.9", 403),
            ("192.0.2.7, 127.0.0.1", 200),
            ("192.0.2.7:4711", 200),
            ("::ffff:192.0.2.7", 200),
            ("[::ffff:192.0.2.7]:4711, 127.0.0.1:80", 200),
            ("junk, 192.0.2.7", 200),
            ("192.0.2.7, junk", 403),
            ("192.0.2.7, [2001:db8::1]:443", 403),
            ("192.0.2.7,,", 200),
            ("not an address", 403),
            ("", 403),
        ):
            response = client_without_key().get(
                service.url + service.at("/jobs"), headers={**bearer, "X-Forwarded-For": chain}
            )
            assert response.status_code == status, chain
        twice = [*bearer.items(), ("X-Forwarded-For", "192.0.2.7"), ("X-Forwarded-For", "203.0.113.9")]
        assert client_without_key().get(service.url + service.at("/jobs"), headers=twice).status_code == 403
