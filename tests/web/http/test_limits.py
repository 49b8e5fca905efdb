"""Limits on unauthenticated input: every attack here uses a raw connection."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.sockets import (
    connect,
    encode_chunk,
    error_code,
    read_one_response,
    read_response,
    response_status,
    send_all,
)

HALF_MEBIBYTE = b"a" * (512 * 1024)
POOLS = ("default", "write", "read", "health", "sign-in", "collect")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("bounds") / "docs.git", {"docs/index.md": b"# Hello\n"})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("bounds-service")
    with serve(folder / "data", repository=repository, with_worker=False, body_memory_megabytes=16) as running:
        yield running


@pytest.fixture(scope="module")
def strict_service(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Service]:
    """A service that waits a second for headers and bodies, and allows twenty connections per address."""
    folder = tmp_path_factory.mktemp("bounds-hasty")
    bounds: dict[str, Any] = {
        "header_seconds": 1,
        "body_seconds": 1,
        "connections_per_address": 20,
        "trusted_proxies": "127.0.0.9",
    }
    with serve(folder / "data", repository=repository, with_worker=False, **bounds) as running:
        yield running


def send_request(service: Service, request: bytes, source: str = "127.0.0.1") -> bytes:
    with connect(service.url, source) as connection:
        connection.sendall(request)
        return read_one_response(connection)


def get_health_status(service: Service, source: str = "127.0.0.1") -> int | None:
    return response_status(send_request(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", source))


CODINGS = {
    "lower case": b"Transfer-Encoding: chunked\r\n",
    "capital": b"Transfer-Encoding: Chunked\r\n",
    "upper case": b"TRANSFER-ENCODING: CHUNKED\r\n",
    "after another": b"Transfer-Encoding: gzip, Chunked\r\n",
    "two headers": b"Transfer-Encoding: gzip\r\nTransfer-Encoding: cHunked\r\n",
    "spaces": b"Transfer-Encoding:   Chunked  \r\n",
}


@pytest.mark.parametrize("path", ["/sign-in", "/v1/collect/site_x", "/join/x", "/nothing"])
@pytest.mark.parametrize("coding", CODINGS)
def test_chunked_body_over_the_limit_is_refused_for_any_spelling_of_the_coding(
    service: Service, path: str, coding: str
) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    with connect(service.url) as connection:
        connection.sendall(head.encode() + CODINGS[coding] + b"\r\n")
        send_all(connection, [encode_chunk(HALF_MEBIBYTE)] * 3 + [b"0\r\n\r\n"])
        answer = read_one_response(connection)
    assert (response_status(answer), error_code(answer)) in ((413, "too_large"), (400, "invalid_request"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "PUT"])
def test_body_that_no_route_reads_is_limited_too(service: Service, method: str) -> None:
    head = f"{method} /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n".encode()
    with connect(service.url) as connection:
        connection.sendall(head)
        send_all(connection, [encode_chunk(HALF_MEBIBYTE)] * 3 + [b"0\r\n\r\n"])
        assert response_status(read_one_response(connection)) == 413


def test_endless_body_is_cut_off(service: Service) -> None:
    with connect(service.url) as connection:
        connection.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n")
        sent = send_all(connection, (encode_chunk(HALF_MEBIBYTE) for _ in range(600)))
        assert sent < 200 * 1024 * 1024, "it was closed long before the 300 MiB were through"
    assert get_health_status(service) == 200


def test_http_1_0_request_without_length_has_no_body(service: Service) -> None:
    with connect(service.url) as connection:
        connection.sendall(b"POST /sign-in HTTP/1.0\r\n\r\n")
        send_all(connection, [HALF_MEBIBYTE] * 4)
        assert response_status(read_response(connection)) in (400, 415)


def test_body_of_a_refused_request_is_not_read_endlessly(service: Service) -> None:
    with connect(service.url) as connection:
        connection.sendall(b"POST /v2/agent/x/job HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert response_status(read_one_response(connection)) == 401
        assert send_all(connection, (encode_chunk(HALF_MEBIBYTE) for _ in range(600))) < 200 * 1024 * 1024


def test_one_byte_chunks_are_refused(service: Service) -> None:
    with connect(service.url) as connection:
        connection.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        send_all(connection, [encode_chunk(b"a") * 1000] * 30)
        answer = read_response(connection)
    assert (response_status(answer), error_code(answer)) == (400, "invalid_request")


def test_an_endless_trailer_or_chunk_extension_is_refused(service: Service) -> None:
    for begin in (b"0\r\nX-Trailer: ", b"5;extension="):
        with connect(service.url) as connection:
            connection.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + begin)
            send_all(connection, [HALF_MEBIBYTE])
            assert response_status(read_response(connection)) == 400


def test_trailer_is_not_a_header(service: Service) -> None:
    head = f"POST {service.at('/job')} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    answer = send_request(service, f"{head}Authorization: Bearer {service.key}\r\n\r\n".encode())
    assert (response_status(answer), error_code(answer)) == (401, "key_missing")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: %b\r\n\r\n",
        b"GET /healthz?%b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-%b: a\r\n\r\n",
    ],
    ids=["value", "request line", "name"],
)
def test_head_above_64_kib_returns_431(service: Service, head: bytes) -> None:
    assert response_status(send_request(service, head % (b"a" * 60_000))) == 200
    answer = send_request(service, head % (b"a" * 66_000))
    assert (response_status(answer), error_code(answer)) == (431, "headers_too_large")


def test_many_small_headers_above_64_kib_return_431(service: Service) -> None:
    lines = b"".join(b"X-%d: a\r\n" % number for number in range(8000))
    assert response_status(send_request(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")) == 431


def test_large_head_of_a_pipelined_request_returns_431(service: Service) -> None:
    first = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(service.url) as connection:
        connection.sendall(first + first.replace(b"x\r\n", b"x\r\nX: " + b"a" * 200_000 + b"\r\n"))
        assert read_response(connection).count(b"HTTP/1.1 200 ") <= 1
    with connect(service.url) as connection:
        connection.sendall(first)
        assert response_status(read_one_response(connection)) == 200
        connection.sendall(first.replace(b"x\r\n", b"x\r\nX: " + b"a" * 200_000 + b"\r\n"))
        assert b"HTTP/1.1 431 " in read_response(connection)


def test_endless_header_is_answered_before_it_ends(service: Service) -> None:
    with connect(service.url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ")
        send_all(connection, [HALF_MEBIBYTE])
        assert response_status(read_one_response(connection)) == 431
        assert send_all(connection, [HALF_MEBIBYTE] * 600) < 200 * 1024 * 1024
    assert get_health_status(service) == 200


def test_pipelined_requests_are_answered_up_to_a_limit(service: Service) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(service.url) as connection:
        connection.sendall(request * 49 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_response(connection).count(b"HTTP/1.1 200 OK") == 50
    with connect(service.url) as connection:
        send_all(connection, [request * 20_000])
        assert read_response(connection).count(b"HTTP/1.1 200 OK") < 20_000


def send_slowly(connection: socket.socket, part: bytes) -> bytes:
    """Sends this part a few times per second until the service closes the connection; returns the response."""
    over = threading.Event()

    def send() -> None:
        with suppress(OSError):
            while not over.wait(0.2):
                connection.sendall(part)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return read_response(connection)
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X: a\r\n"),
        (b"GET /healthz HTTP/1.1\r\nX-Long: ", b"a"),
        (b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", b"a"),
        (b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"POST /v1/collect/site_x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", b""),
    ],
    ids=["headers", "one header", "length", "chunks", "nothing"],
)
def test_slow_request_returns_408(strict_service: Service, begin: bytes, part: bytes) -> None:
    with connect(strict_service.url) as connection:
        connection.sendall(begin)
        answer = send_slowly(connection, part)
    assert (response_status(answer), error_code(answer)) == (408, "request_timeout")


def test_silent_connection_is_closed(strict_service: Service) -> None:
    with connect(strict_service.url) as connection:
        assert read_response(connection) == b""
    with connect(strict_service.url) as connection:
        assert response_status(send_slowly(connection, b"\r\n")) in (None, 408)


def test_keep_alive_connection_that_sends_only_line_breaks_is_closed(strict_service: Service) -> None:
    with connect(strict_service.url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = send_slowly(connection, b"\r\n")
    assert response_status(answer) == 200
    assert answer.count(b"HTTP/1.1") <= 2


def test_connections_per_address_are_limited_and_other_addresses_served(strict_service: Service) -> None:
    with ExitStack() as held:
        connections = [held.enter_context(connect(strict_service.url, "127.0.0.5")) for _ in range(30)]
        assert get_health_status(strict_service, "127.0.0.6") == 200
        answers = [read_response(connection) for connection in connections]
        refused = [answer for answer in answers if answer and response_status(answer) == 429]
        assert refused, "those beyond the limit are told so"
        assert error_code(refused[0]) == "too_many_connections"
        assert b"Retry-After:" in refused[0]
    assert wait_until(lambda: get_health_status(strict_service, "127.0.0.5") == 200), (
        "once they are closed, it may connect again"
    )


def test_refused_client_gets_an_explanation(strict_service: Service) -> None:
    with ExitStack() as held:
        for _ in range(25):
            held.enter_context(connect(strict_service.url, "127.0.0.7"))
        late = held.enter_context(connect(strict_service.url, "127.0.0.7"))
        with suppress(OSError):
            late.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n" + b"a" * 20_000)
        assert response_status(read_response(late)) == 429


def test_body_after_an_upgrade_header_is_not_parsed_as_a_request(service: Service) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = (
        b"POST /sign-in HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABk\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    )
    with connect(service.url) as connection:
        connection.sendall(head)
        answer = read_one_response(connection)
        with suppress(OSError):
            connection.sendall(smuggled)
        answer += read_response(connection)
        assert (response_status(answer), answer.count(b"HTTP/1.1 ")) == (400, 1)


def test_connections_of_a_trusted_proxy_are_not_counted_by_address(strict_service: Service) -> None:
    with ExitStack() as held:
        for _ in range(40):
            held.enter_context(connect(strict_service.url, "127.0.0.9"))
        assert get_health_status(strict_service, "127.0.0.9") == 200


def wait_until(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.05)
    return False


def start_body(service: Service, path: str, size: int, key: str = "") -> socket.socket:
    """Starts a request and withholds the last byte of its body."""
    connection = connect(service.url)
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{authorization}Content-Length: {size}\r\n\r\n"
    connection.sendall(head.encode() + b"a" * (size - 1))
    return connection


@pytest.mark.deep
def test_unfinished_bodies_use_bounded_memory_and_small_requests_pass(service: Service) -> None:
    events, mebibyte = f"/v1/analytics/{service.project.id}/events", 1024 * 1024
    connections: list[socket.socket] = []
    with ExitStack() as held:
        for _ in range(15):
            held.enter_context(connection := start_body(service, "/nothing", mebibyte))
            connections.append(connection)
        refused = [read_one_response(each) for each in wait_for_responses(connections, 7)]
        assert {(response_status(each), error_code(each)) for each in refused} == {(503, "server_busy")}
        assert all(b"retry-after:" in each.lower() for each in refused)
        with start_body(service, events, 5 * mebibyte, service.key) as keyed:
            keyed.sendall(b"a")
            assert response_status(read_one_response(keyed)) != 503, "requests with a key have room of their own"
        assert service.http.post(service.at("/job"), json={"prompt": "a" * 30_000}).status_code == 201
    assert wait_until(lambda: response_status(send_complete_body(service, "/nothing", mebibyte)) == 404), (
        "the memory is given back"
    )


def wait_for_responses(connections: list[socket.socket], count: int) -> list[socket.socket]:
    """Waits for `count` responses and returns their connections: eight bodies fit into half of 16 MiB."""
    assert wait_until(lambda: len(select.select(connections, [], [], 0)[0]) >= count)
    return select.select(connections, [], [], 0)[0]


def send_complete_body(service: Service, path: str, size: int) -> bytes:
    with start_body(service, path, size) as connection:
        connection.sendall(b"a")
        return read_one_response(connection)


def test_webhook_of_an_unknown_project_is_refused_before_its_body(service: Service) -> None:
    for project in ("x", service.project.id):
        head = f"POST /webhooks/{project} HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n"
        answer = send_request(service, head.encode())
        assert (response_status(answer), error_code(answer)) == (401, "signature_rejected")


@pytest.mark.deep
def test_a_stopped_server_leaves_no_thread(tmp_path: Path, repository: Path) -> None:
    before = {thread.ident for thread in threading.enumerate()}

    def left() -> list[str]:
        new = [thread for thread in threading.enumerate() if thread.ident not in before]
        return [thread.name for thread in new if thread.name.startswith(POOLS)]

    with serve(tmp_path / "data", repository=repository, with_worker=False) as running:
        running.client.create_job("Any")
        assert running.http.get("/readyz").status_code == 200
        event = [{"url": "https://docs.example.com/a", "userAgent": "x" * 9000}]
        assert running.http.post(f"/v1/analytics/{running.project.id}/events", json=event).status_code == 202
        assert {name.partition("_")[0] for name in left()} >= {"default", "health", "read"}
    assert wait_until(lambda: not left())
