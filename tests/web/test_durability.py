"""No acknowledged event is lost: the complete service is killed repeatedly while it collects."""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk

CLIENTS = 6


class EventSenders:
    """Clients that send events as fast as they are acknowledged, and record which were."""

    def __init__(self, port: int, path: str, key: str, round_: int) -> None:
        self._port, self._path, self._round = port, path, round_
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _send(self, number: int) -> None:
        """Sends single events or batches until the server ends."""
        chance, sent = random.Random(self._round * CLIENTS + number), 0
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            while True:
                size = chance.choice((1, 1, 50))
                ids = [f"{self._round}-{number}-{sent + place}" for place in range(size)]
                sent += size
                if post_events(connection, self._path, self._headers, ids) == (size, 0):
                    self.acknowledged += ids
        except (OSError, http.client.HTTPException):
            return


def post_events(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str], ids: list[str]
) -> tuple[int, int]:
    """Posts events; returns how many were accepted, and how many were duplicates."""
    events = [{"path": f"/{len(each)}", "ip": "203.0.113.7", "eventId": each} for each in ids]
    connection.request("POST", path, json.dumps(events), headers)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    assert answer.status == 202, told
    return told["accepted"], told["duplicates"]


@contextmanager
def serve_process(data: Path) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    environment["COPYDESK_DATA"] = str(data)
    command = [sys.executable, "-m", "copydesk", "serve", "--no-worker", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, "the server ended"
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield port, process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)


def kill_repeatedly(data: Path, rounds: int) -> None:
    desk = open_desk(Settings(data=data))
    project = desk.projects.create("Docs", repository=str(data), ref="main", actor="test")
    key = desk.keys.create(project.id, actor="test")[1]
    path, chance = f"/v1/analytics/{project.id}/events", random.Random(rounds)
    acknowledged: list[str] = []
    for number in range(rounds):
        with serve_process(data) as (port, process):
            senders = EventSenders(port, path, key, number)
            senders.start()
            while not senders.acknowledged:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
            senders.join()
        acknowledged += senders.acknowledged
    with serve_process(data) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        for start in range(0, len(acknowledged), 1000):
            ids = acknowledged[start : start + 1000]
            assert post_events(connection, path, headers, ids) == (0, len(ids)), "an acknowledged event was lost"
        connection.close()
    desk.store.fold()
    [row], _ = desk.store.list_agents(project.id)
    assert len(acknowledged) <= row.views
    # At most one batch per client and round was stored without an acknowledgment.
    assert row.views <= len(acknowledged) + rounds * CLIENTS * 50
    desk.close()


def test_acknowledged_events_survive_a_kill(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path / "data", rounds=1)


@pytest.mark.drill
def test_acknowledged_events_survive_many_kills(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path / "data", rounds=200)
