"""The load generator, which runs in a separate process: each client sends one request at a time on one connection."""

import http.client
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass

WARM_UP_REQUESTS = 20


@dataclass(frozen=True)
class LoadOrder:
    port: int
    path: str
    headers: dict[str, str]
    clients: int
    requests: int
    """Per client, after its warm-up."""


@dataclass(frozen=True)
class LoadResult:
    milliseconds: list[float]
    seconds: float
    cpu_seconds: float
    """CPU seconds of the generator."""


def run_load(order: LoadOrder) -> LoadResult:
    ready = threading.Barrier(order.clients + 1)
    durations: list[list[float]] = [[] for _ in range(order.clients)]
    threads = [threading.Thread(target=_run_client, args=(order, ready, times)) for times in durations]
    for thread in threads:
        thread.start()
    ready.wait()
    cpu, began = time.process_time(), time.perf_counter()
    for thread in threads:
        thread.join()
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    if any(len(times) != order.requests for times in durations):
        raise RuntimeError("a client was refused; see above")
    return LoadResult([each for times in durations for each in times], seconds, used)


def _run_client(order: LoadOrder, ready: threading.Barrier, times: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", order.port, timeout=60)
    body = json.dumps({"prompt": "Replace colour with color on every page."})
    for number in range(WARM_UP_REQUESTS + order.requests):
        if number == WARM_UP_REQUESTS:
            ready.wait()
        began = time.perf_counter()
        connection.request("POST", order.path, body, headers=order.headers)
        answer = connection.getresponse()
        answer_body = answer.read()
        if answer.status != 201:
            raise RuntimeError(f"creating a job answered {answer.status}: {answer_body[:200]!r}")
        if number >= WARM_UP_REQUESTS:
            times.append((time.perf_counter() - began) * 1000)
    connection.close()


if __name__ == "__main__":
    print(json.dumps(asdict(run_load(LoadOrder(**json.load(sys.stdin))))))
