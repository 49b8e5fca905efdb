"""Floods of requests against a real server: it still serves others, with limited memory."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import sysconf
from pathlib import Path

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from tests.faults.drill_output import print_line
from tests.support.cpu_budget import measure_slowness
from tests.support.processes import CommandSpec, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository
from tests.support.sockets import connect, encode_chunk, read_one_response, response_status, send_all

pytestmark = pytest.mark.deep

MEBIBYTE = 1024 * 1024
PIECE = b"a" * (256 * 1024)
ANOTHER_ADDRESS = "127.0.0.2"
PROBES = 12
MOST_CPU_SECONDS = 1.0
"""CPU seconds of the server while /healthz waits. Wall time would measure how busy the machine is."""
MOST_GROWTH = 400 * MEBIBYTE


@dataclass
class FloodTarget:
    server: RunningServer
    project: str
    key: str
    job: str

    def request(self, path: str, *headers: str, method: str = "POST") -> bytes:
        return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *headers, "", "")).encode()

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.key}"

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> int:
        lines = Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FloodTarget]:
    folder, port = tmp_path_factory.mktemp("floods"), free_port()
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    desk = open_desk_lazily(Settings(data=folder / "data"))
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    key = desk.keys.create(project.id, actor="test")[1]
    desk.close()
    options = {"data": folder / "data", "jobs_per_hour": 100_000}
    server = RunningServer(
        CommandSpec(("serve", "--no-worker", "--port", str(port)), settings_environment(options), folder / "log"), port
    )
    try:
        server.wait_until_ready()
        found = FloodTarget(server, project.id, key, "")
        created = send_request(
            found, found.request(f"/v2/agent/{project.id}/job", *json_headers('{"prompt": "Any"}', found.bearer))
        )
        found.job = created.partition(b'"id":"')[2].partition(b'"')[0].decode()
        with ExitStack() as held:  # creates everything that is created on first use
            open_streams(found, held, 3)
        yield found
        server.stop()
    finally:
        server.close()


def json_headers(body: str, *headers: str) -> tuple[str, ...]:
    """Returns headers that end with a body."""
    return (*headers, "Content-Type: application/json", f"Content-Length: {len(body)}", "", body)


def send_request(target: FloodTarget, request: bytes, source: str = "127.0.0.1") -> bytes:
    with connect(target.server.url, source) as connection:
        connection.sendall(request)
        return read_one_response(connection)


Attack = Callable[[FloodTarget, ExitStack], None]
"""Performs one round; connections in the stack stay open until the end."""


def send_endless_bodies(target: FloodTarget, held: ExitStack) -> None:
    for path in ("/sign-in", "/webhooks/x", "/v1/collect/site_x"):
        connection = held.enter_context(connect(target.server.url))
        connection.sendall(target.request(path, "Transfer-Encoding: Chunked"))
        send_all(connection, (encode_chunk(PIECE) for _ in range(1600)))


def send_endless_headers(target: FloodTarget, held: ExitStack) -> None:
    connection = held.enter_context(connect(target.server.url))
    connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
    send_all(connection, [PIECE] * 400)


def hold_bodies(target: FloodTarget, held: ExitStack) -> None:
    events = f"/v1/analytics/{target.project}/events"
    for path, size, headers in (("/nothing", MEBIBYTE, ()), (events, 5 * MEBIBYTE, (target.bearer,))):
        for _ in range(100):
            connection = held.enter_context(connect(target.server.url))
            connection.sendall(target.request(path, *headers, f"Content-Length: {size}"))
            send_all(connection, [b"a" * (size - 1)])


def hold_heads(target: FloodTarget, held: ExitStack) -> None:
    for _ in range(300):
        connection = held.enter_context(connect(target.server.url))
        send_all(connection, [b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 60_000])


def open_streams(target: FloodTarget, held: ExitStack, count: int = 1000) -> None:
    path = f"/v2/agent/{target.project}/job/{target.job}/events"
    for _ in range(count):
        connection = held.enter_context(connect(target.server.url))
        send_all(connection, [target.request(path, target.bearer, method="GET")])
    for _ in range(20):
        send_request(
            target,
            target.request(f"/v2/agent/{target.project}/job", *json_headers('{"prompt": "More"}', target.bearer)),
        )


def send_tiny_events(target: FloodTarget, held: ExitStack) -> None:
    body = gzip.compress(b"[" + b"{}," * 3_400_000 + b"{}]", 1)
    headers = (
        target.bearer,
        "Content-Type: application/json",
        "Content-Encoding: gzip",
        f"Content-Length: {len(body)}",
    )
    for _ in range(4):
        connection = held.enter_context(connect(target.server.url))
        connection.sendall(target.request(f"/v1/analytics/{target.project}/events", *headers) + body)
        read_one_response(connection)


def send_tiny_chunks(target: FloodTarget, held: ExitStack) -> None:
    for _ in range(5):
        connection = held.enter_context(connect(target.server.url))
        connection.sendall(target.request("/nothing", "Transfer-Encoding: chunked"))
        send_all(connection, [encode_chunk(b"a") * 40_000] * 4)


def send_ahead(target: FloodTarget, held: ExitStack) -> None:
    connection = held.enter_context(connect(target.server.url))
    send_all(connection, [target.request("/healthz", method="GET") * 5_000] * 20)


ATTACKS: list[Attack] = [
    send_endless_bodies,
    send_endless_headers,
    hold_bodies,
    hold_heads,
    open_streams,
    send_tiny_events,
    send_tiny_chunks,
    send_ahead,
]


@pytest.mark.drill
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_other_clients_are_served_during_an_attack(target: FloodTarget, attack: Attack) -> None:
    over, rounds = threading.Event(), 0

    def go_on() -> None:
        nonlocal rounds
        while not over.is_set():
            with ExitStack() as held, suppress(OSError):
                attack(target, held)
                rounds += 1
                over.wait(0.5)

    before, spent = target.memory, list[float]()
    most = before
    attackers = [threading.Thread(target=go_on, daemon=True) for _ in range(2)]
    for attacker in attackers:
        attacker.start()
    try:
        while len(spent) < PROBES or not rounds:
            began = target.cpu_seconds
            answer = send_request(target, target.request("/healthz", method="GET"), ANOTHER_ADDRESS)
            spent.append(target.cpu_seconds - began)
            most = max(most, target.memory)
            assert response_status(answer) == 200
            assert any(attacker.is_alive() for attacker in attackers), "the attack still goes on"
            over.wait(0.1)
    finally:
        over.set()
        for attacker in attackers:
            attacker.join(timeout=120)
    print_line(f"{attack.__name__}: at most {max(spent):.2f} s of CPU for /healthz, {(most - before) >> 20} MiB more")
    assert max(spent) <= MOST_CPU_SECONDS * measure_slowness()
    assert most - before < MOST_GROWTH
