"""Every error is JSON of one format, with one message and the request's id, and reveals no internals."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from tests.support.postgres import new_database, server_url
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

INTERNAL_DETAILS_PATTERN = re.compile(
    r"Traceback|File \"|\.py\b|sqlalchemy|sqlite|psycopg|pydantic|starlette|select |insert into|/tmp/|/home/",
    re.IGNORECASE,
)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("errors")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def http(service: Service) -> httpx.Client:
    return service.http


def parse_error(response: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Returns the body of an error, and asserts that it follows the contract."""
    assert response.status_code == status, response.text[:300]
    return check_error(response.headers.get("content-type"), response.headers.get("x-request-id"), response.text, code)


def check_error(kind: str | None, request_id: str | None, text: str, code: str | None = None) -> dict[str, Any]:
    assert kind == "application/json"
    body: dict[str, Any] = json.loads(text)
    assert {"error", "code", "requestId"} <= set(body) <= {"error", "code", "requestId", "details"}
    assert body["requestId"] == request_id
    assert re.fullmatch(r"[a-z_]+", body["code"])
    assert code in (None, body["code"])
    assert body["error"].strip()
    assert body["error"].endswith((".", "…'.")), "a sentence ends with a full stop"
    for detail in body.get("details", []):
        assert set(detail) == {"field", "message"}
    assert not INTERNAL_DETAILS_PATTERN.search(text), text
    assert "desk_" not in text.replace("desk_…", "")
    return body


def send_raw(service: Service, sent: bytes, *, hang_up: bool = True) -> bytes:
    """Sends these bytes and returns the response."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(sent)
        if hang_up:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer


def split_response(answer: bytes) -> tuple[int, dict[str, str], str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body.decode()


def test_unknown_route_returns_404(service: Service, http: httpx.Client) -> None:
    for path in ("/nothing", "/v2", "/docs/", "/%00", "/%ff", "/review", "/static/../x", "/é", "/" + "a" * 20_000):
        parse_error(http.get(path), 404, "not_found")
    for path in (service.at(""), service.at("/"), service.at("/nothing"), service.at("/job"), service.at("/jobs/")):
        assert http.get(path).status_code in (404, 405), path


def test_unknown_method_returns_405_with_allowed_methods(service: Service, http: httpx.Client) -> None:
    for method, path, allowed in (
        ("DELETE", service.at("/jobs"), "GET"),
        ("PUT", service.at("/job"), "POST"),
        ("GET", service.at("/job"), "POST"),
        ("PATCH", "/healthz", "GET"),
        ("POST", "/openapi.json", "GET"),
        ("TRACE", "/docs", "GET"),
    ):
        response = http.request(method, path)
        parse_error(response, 405, "method_not_allowed")
        assert allowed in response.headers["allow"].split(", "), (method, path)


def test_valid_request_id_of_the_caller_is_kept(http: httpx.Client) -> None:
    for sane in ("abc", "0", "a-b.c:d_e", "A" * 128):
        assert parse_error(http.get("/nothing", headers={"X-Request-Id": sane}), 404)["requestId"] == sane
        assert http.get("/healthz", headers={"X-Request-Id": sane}).headers["x-request-id"] == sane


def test_invalid_request_id_is_replaced(http: httpx.Client) -> None:
    for insane in (b"", b"A" * 129, b"a b", b"<script>", b"a\tb", "é".encode(), b"\xff", b"a,b", b"{}", b'"'):
        given = parse_error(http.get("/nothing", headers=[(b"X-Request-Id", insane)]), 404)["requestId"]
        assert re.fullmatch(r"req_[0-9A-Za-z]{20}", given), insane


BAD_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"prompt=hello",
    "cut off": b'{"prompt": "hel',
    "two values": b'{"prompt": "a"} {"prompt": "b"}',
    "not UTF-8": b'{"prompt": "\xff\xfe"}',
    "NaN": b'{"prompt": NaN}',
    "a number too large": b'{"prompt": 1e999}',
    "a digit too many": b'{"prompt": ' + b"9" * 10_000 + b"}",
    "an array": b"[]",
    "null": b"null",
    "a string": b'"prompt"',
    "no prompt": b"{}",
    "null prompt": b'{"prompt": null}',
    "a number": b'{"prompt": 1}',
    "a list": b'{"prompt": ["a"]}',
    "an object": b'{"prompt": {"a": 1}}',
    "empty": b'{"prompt": ""}',
    "blank": b'{"prompt": " \\n\\t\\u00a0"}',
    "too long": json.dumps({"prompt": "a" * 32_001}).encode(),
    "too long in astral characters": json.dumps({"prompt": "😀" * 32_001}).encode(),
    "NUL": b'{"prompt": "a\\u0000b"}',
    "lone high surrogate": b'{"prompt": "a\\ud800b"}',
    "lone low surrogate": b'{"prompt": "a\\udc00b"}',
    "reversed surrogates": b'{"prompt": "\\udc00\\ud800"}',
    "surrogate as raw bytes": b'{"prompt": "\xed\xa0\x80"}',
    "unknown field": b'{"prompt": "a", "promt": "b"}',
    "the key's name misspelt": b'{"Prompt": "a"}',
    "a proto": b'{"prompt": "a", "__proto__": {}}',
    "nested far too deep": b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested and never closed": b"[" * 100_000,
    "objects far too deep": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("kind", BAD_BODIES)
def test_invalid_body_returns_400_for_jobs_and_messages(service: Service, http: httpx.Client, kind: str) -> None:
    job = service.client.create_job("Any")
    for path in (service.at("/job"), service.at(f"/job/{job['id']}/message")):
        parse_error(http.post(path, content=BAD_BODIES[kind], headers=JSON), 400, "invalid_request")
    assert service.client.list_jobs(limit=1)["jobs"][0]["id"] == job["id"], "nothing was created"


@pytest.mark.parametrize(
    "extra",
    [
        {"model": "gpt"}, {"model": ""}, {"model": 1}, {"model": "openai:"}, {"model": "openai:a b"},
        {"model": "a\x00"}, {"model": "\ud800"}, {"model": "openai:not-offered"},
        {"ref": ""}, {"ref": 5}, {"ref": "a b"}, {"ref": "\ud800"}, {"ref": "a" * 201},
        {"draft": "yes"}, {"draft": 1}, {"draft": None}, {"draft": []},
        {"title": ""}, {"title": "t" * 201}, {"title": {}}, {"title": "\x00"}, {"title": "\udfff"},
    ],
)  # fmt: skip
def test_invalid_option_returns_400_and_is_named(service: Service, http: httpx.Client, extra: dict[str, Any]) -> None:
    body = json.dumps({"prompt": "a", **extra}).encode()
    parse_error(http.post(service.at("/job"), content=body, headers=JSON), 400, "invalid_request")


def test_all_validation_errors_are_reported(service: Service, http: httpx.Client) -> None:
    wrong = {"prompt": 1, "draft": "x", "colour": 2}
    body = parse_error(http.post(service.at("/job"), json=wrong), 400, "invalid_request")
    assert {detail["field"] for detail in body["details"]} == {"prompt", "draft", "colour"}


def test_length_limits_are_inclusive(service: Service, http: httpx.Client) -> None:
    for prompt in ("a", "a" * 32_000, "😀" * 32_000):
        assert http.post(service.at("/job"), json={"prompt": prompt}).json()["prompt"] == prompt


def test_duplicate_field_uses_the_last_value_or_returns_400(service: Service, http: httpx.Client) -> None:
    response = http.post(service.at("/job"), content=b'{"prompt": "a", "prompt": "b"}', headers=JSON)
    assert response.status_code in (201, 400)
    if response.status_code == 201:
        assert response.json()["prompt"] == "b", "as every common parser has it"
    else:
        parse_error(response, 400)


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "x",
     "application/jsonx", "text/json;charset=utf-8"],
)  # fmt: skip
def test_wrong_media_type_returns_415(service: Service, http: httpx.Client, kind: str) -> None:
    body = b'{"prompt": "a"}'
    parse_error(http.post(service.at("/job"), content=body, headers={"Content-Type": kind}), 415, "wrong_media_type")


def test_media_type_with_parameter_or_json_suffix_is_json(service: Service, http: httpx.Client) -> None:
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        answer = http.post(service.at("/job"), content=b'{"prompt": "a"}', headers={"Content-Type": kind})
        assert answer.status_code == 201, kind


@pytest.mark.deep
def test_body_of_40_megabytes_returns_413(service: Service, http: httpx.Client) -> None:
    piece = b"a" * 65536

    def chunks() -> Iterator[bytes]:
        yield b'{"prompt": "'
        for _ in range(640):
            yield piece
        yield b'"}'

    for path in (service.at("/job"), service.at("/job/x/cancel"), "/nothing"):
        whole = b'{"prompt": "' + piece * 640 + b'"}'
        parse_error(http.post(path, content=whole, headers=JSON), 413, "too_large")
        parse_error(http.post(path, content=chunks(), headers=JSON), 413, "too_large")


def test_too_large_content_length_returns_413_before_the_body(service: Service) -> None:
    head = (
        f"POST {service.at('/job')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {service.key}\r\n"
    )
    sent = head.encode() + b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{"
    status, headers, body = split_response(send_raw(service, sent, hang_up=False))
    assert status == 413
    check_error(headers.get("content-type"), headers.get("x-request-id"), body, "too_large")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=-1", "limit=x", "limit=1.5", "limit=1e1", "limit=9" + "9" * 400,
     "limit=%00", "status=done", "status=ACTIVE", "cursor=x", "cursor=%00", "cursor=job_%ff",
     "cursor=" + "j" * 5000, "cursor=job_" + "i" * 26],
)  # fmt: skip
def test_invalid_query_returns_400(service: Service, http: httpx.Client, query: str) -> None:
    parse_error(http.get(f"{service.at('/jobs')}?{query}"), 400, "invalid_request")


@pytest.mark.parametrize("key", [b"", b"a" * 129, b"a b", "é".encode(), b"\xff", b"\x7f"])
def test_invalid_idempotency_key_returns_400(service: Service, http: httpx.Client, key: bytes) -> None:
    answer = http.post(service.at("/job"), json={"prompt": "a"}, headers=[(b"Idempotency-Key", key)])
    parse_error(answer, 400, "invalid_request")


@pytest.mark.parametrize("number", ["x", "-1", "1.0", "", "٣", "9" * 10, "1e3", "0x1"])
def test_invalid_last_event_id_returns_400(service: Service, http: httpx.Client, number: str) -> None:
    job = service.client.create_job("Any")
    headers = [(b"Last-Event-ID", number.encode()), (b"Accept", b"application/json")]
    parse_error(http.get(service.at(f"/job/{job['id']}/events"), headers=headers), 400, "invalid_request")


@pytest.mark.parametrize(
    "job_id",
    [
        "x", "job_", "job_" + "0" * 25, "job_" + "0" * 26, "job_" + "O" * 26, "%00", "%ff", "%F0%9F%98%80", "a" * 5000,
        "'%20or%20'1'='1", "..", "%2e%2e", "job_*",
    ],
)  # fmt: skip
def test_malformed_job_id_returns_404(service: Service, http: httpx.Client, job_id: str) -> None:
    parse_error(http.get(service.at(f"/job/{job_id}")), 404)
    parse_error(http.post(service.at(f"/job/{job_id}/cancel")), 404)
    parse_error(http.post(service.at(f"/job/{job_id}/message"), json={"prompt": "a"}), 404)


GARBAGE: dict[str, bytes] = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "zeros": bytes(512),
    "words": b"hello there\r\n\r\n",
    "bad version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "bad header": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    "bad length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "length in words": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_non_http_input_returns_400_in_json(service: Service, kind: str) -> None:
    status, headers, body = split_response(send_raw(service, GARBAGE[kind]))
    assert status == 400
    check_error(headers.get("content-type"), headers.get("x-request-id"), body, "invalid_request")


def test_no_header_can_be_injected_into_an_answer(service: Service) -> None:
    for line in (
        b"X-Request-Id: a\r\n Set-Cookie: b",
        b"X-Request-Id: a\nSet-Cookie: b",
        b"X-Request-Id: a\rSet-Cookie: b",
    ):
        answer = send_raw(service, b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + line + b"\r\n\r\n")
        assert b"set-cookie" not in answer.partition(b"\r\n\r\n")[0].lower()
    encoded = b"GET /nothing%0d%0aSet-Cookie:%20b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert b"set-cookie" not in send_raw(service, encoded).lower()


def test_client_that_disconnects_in_mid_body_does_no_harm(service: Service, http: httpx.Client) -> None:
    before = service.client.list_jobs(limit=1)
    head = f"POST {service.at('/job')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\n".encode()
    for rest in (b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"):
        answer = send_raw(service, head + b"Content-Type: application/json\r\n" + rest + b'{"prompt": "a"}')
        assert b" 500 " not in answer.partition(b"\r\n")[0]
    assert service.client.list_jobs(limit=1) == before
    assert http.get("/healthz").status_code == 200


def test_far_too_large_head_is_refused(service: Service, http: httpx.Client) -> None:
    error = send_raw(service, b"GET /nothing HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 8_000_000 + b"\r\n\r\n")
    assert error == b"" or split_response(error)[0] in (400, 404, 413, 431)
    assert http.get("/healthz").status_code == 200


@pytest.fixture
def postgres_service(tmp_path: Path) -> Iterator[Service]:
    """A service on its own PostgreSQL database, which the test drops."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, database_url=new_database(), with_worker=False) as running:
        yield running


@pytest.mark.deep
def test_unavailable_database_returns_503_without_details(postgres_service: Service) -> None:
    job = postgres_service.client.create_job("Any")
    database = str(make_url(postgres_service.desk.settings.database_url).database)
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(database)))
    http = postgres_service.http
    assert http.get("/healthz").status_code == 200, "alive, if not ready"
    parse_error(http.get("/readyz"), 503, "not_ready")
    for answer in (
        http.get(postgres_service.at("/jobs")),
        http.get(postgres_service.at(f"/job/{job['id']}")),
        http.get(postgres_service.at(f"/job/{job['id']}/events")),
        http.post(postgres_service.at("/job"), json={"prompt": "a"}),
        http.post(postgres_service.at(f"/job/{job['id']}/cancel")),
    ):
        body = parse_error(answer, 503, "store_down")
        assert int(answer.headers["retry-after"]) > 0
        assert database not in body["error"]


@pytest.mark.deep
def test_connections_cut_by_the_database_are_replaced_transparently(postgres_service: Service) -> None:
    for _ in range(3):
        postgres_service.client.list_jobs()
        database = make_url(postgres_service.desk.settings.database_url).database
        with psycopg.connect(server_url(), autocommit=True) as connection:
            cut = (
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
            )
            connection.execute(cut, [database])
        assert postgres_service.http.get(postgres_service.at("/jobs")).status_code == 200
        assert postgres_service.http.post(postgres_service.at("/job"), json={"prompt": "a"}).status_code == 201
