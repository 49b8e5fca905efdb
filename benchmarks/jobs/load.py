"""The load generator, which runs in a separate process: each client sends one request at a time on one connection."""

import http.client
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass

WARM_UP = 20


@dataclass(frozen=True)
class Order:
    port: int
    path: str
    headers: dict[str, str]
    clients: int
    requests: int
    """Per client, after its warm-up."""


@dataclass(frozen=True)
class Taken:
    milliseconds: list[float]
    seconds: float
    cpu_seconds: float
    """CPU seconds of the generator."""


def run(order: Order) -> Taken:
    ready = threading.Barrier(order.clients + 1)
    found: list[list[float]] = [[] for _ in range(order.clients)]
    threads = [threading.Thread(target=_client, args=(order, ready, times)) for times in found]
    for thread in threads:
        thread.start()
    ready.wait()
    cpu, began = time.process_time(), time.perf_counter()
    for thread in threads:
        thread.join()
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    if any(len(times) != order.requests for times in found):
        raise RuntimeError("a client was refused; see above")
    return Taken([each for times in found for each in times], seconds, used)


def _client(order: Order, ready: threading.Barrier, times: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", order.port, timeout=60)
    body = json.dumps({"prompt": "Replace colour with color on every page."})
    for number in range(WARM_UP + order.requests):
        if number == WARM_UP:
            ready.wait()
        began = time.perf_counter()
        connection.request("POST", order.path, body, headers=order.headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 201:
            raise RuntimeError(f"creating a job answered {answer.status}: {said[:200]!r}")
        if number >= WARM_UP:
            times.append((time.perf_counter() - began) * 1000)
    connection.close()


if __name__ == "__main__":
    print(json.dumps(asdict(run(Order(**json.load(sys.stdin))))))
