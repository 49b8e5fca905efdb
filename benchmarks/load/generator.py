"""The load generator, which runs in a separate process: sends each request when it is due, independent of earlier ones.

Response times count from the moment a request was due, so that a stalling server does not receive fewer requests.
"""

import asyncio
import heapq
import json
import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count

from benchmarks.analytics import generator as views
from benchmarks.jobs.prompts import EDIT_TASKS
from benchmarks.load.connections import ScheduledRequest, ServerConnections

EXPECTED_STATUS_BY_KIND = {"poll": 200, "create": 201, "event": 202, "beacon": 202, "batch": 202, "export": 200}
"""The kinds of request, and the status of success of each."""
BATCH_EVENTS = 100
TEMPLATE_COUNT = 500
MAX_POLLED_JOBS = 100
EVENT_ID_PATTERN = re.compile(rb'(?<="eventId": ")[0-9a-f]{12}|(?<="e": ")[0-9a-f]{12}')
EXPORT_QUERIES = ("visitors?limit=50", "views?limit=50", "agents", "timeseries?interval=day")


@dataclass(frozen=True)
class LoadOrder:
    ports: list[int]
    project_id: str
    site_id: str
    key: str
    job_id: str
    """A job to poll until others are created."""
    rates: dict[str, float]
    """Requests per second of each kind, at random times."""
    seconds: float
    seed: int = 1


@dataclass
class LoadResult:
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in EXPECTED_STATUS_BY_KIND})
    errors: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in EXPECTED_STATUS_BY_KIND})
    late: list[float] = field(default_factory=list)
    """Milliseconds by which the generator itself sent a request too late."""
    accepted: int = 0
    """Events that the server acknowledged."""
    cpu_seconds: float = 0.0
    seconds: float = 0.0


def schedule_requests(rates: Mapping[str, float], seconds: float, seed: int) -> Iterator[tuple[float, str]]:
    """Returns when each request is due, in order, starting at 0: exponential gaps, independent for each kind."""
    chance = random.Random(seed)
    upcoming = [(chance.expovariate(rate), kind) for kind, rate in rates.items() if rate > 0]
    heapq.heapify(upcoming)
    while upcoming:
        due, kind = heapq.heappop(upcoming)
        if due < seconds:
            yield due, kind
            heapq.heappush(upcoming, (due + chance.expovariate(rates[kind]), kind))


class RequestFactory:
    """Builds each request when it is due, at almost no cost: events are templates with new ids."""

    def __init__(self, order: LoadOrder) -> None:
        self._order, self._chance = order, random.Random(order.seed)
        self.jobs = deque([order.job_id], maxlen=MAX_POLLED_JOBS)
        self._numbers = count()
        analytics = f"/v1/analytics/{order.project_id}"
        paths = {
            "event": f"{analytics}/events",
            "batch": f"{analytics}/events",
            "beacon": f"/v1/collect/{order.site_id}",
        }
        self._templates = {
            kind: views.build_requests(
                views.GeneratorOrder(
                    0,
                    kind,
                    path,
                    order.key,
                    0,
                    *((10, BATCH_EVENTS) if kind == "batch" else (TEMPLATE_COUNT, 1)),
                    order.seed,
                )
            )
            for kind, path in paths.items()
        }
        self._jobs = f"/v2/agent/{order.project_id}/job"
        self._exports = [self._get(f"{analytics}/{query}") for query in EXPORT_QUERIES]
        prompt = json.dumps({"prompt": EDIT_TASKS[0].prompt}).encode()
        self._create = self._head("POST", self._jobs, len(prompt)) + prompt

    def make(self, kind: str) -> bytes:
        if kind == "poll":
            return self._get(f"{self._jobs}/{self._chance.choice(self.jobs)}")
        if kind == "create":
            return self._create
        if kind == "export":
            return self._chance.choice(self._exports)
        stamp = b"%04x%08x" % (self._order.seed & 0xFFFF, next(self._numbers))
        return EVENT_ID_PATTERN.sub(stamp, self._chance.choice(self._templates[kind]))

    def _get(self, path: str) -> bytes:
        return self._head("GET", path)

    def _head(self, method: str, path: str, length: int = 0) -> bytes:
        body = f"Content-Type: application/json\r\nContent-Length: {length}\r\n" if length else ""
        key = f"Authorization: Bearer {self._order.key}\r\n"
        return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}{body}\r\n".encode()


class LoadRun:
    def __init__(self, order: LoadOrder) -> None:
        self._order, self._result = order, LoadResult()
        self._requests = RequestFactory(order)
        self._under_way: Counter[str] = Counter()

    async def __call__(self, patience: float = 60.0) -> LoadResult:
        """Runs until all requests are answered, or until the timeout."""
        order, result = self._order, self._result
        servers = [ServerConnections(port, self._on_answer) for port in order.ports]
        cpu, began = time.process_time(), time.perf_counter()
        for number, (due, kind) in enumerate(schedule_requests(order.rates, order.seconds, order.seed)):
            await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
            request = ScheduledRequest(kind, began + due, self._requests.make(kind))
            result.late.append((time.perf_counter() - request.due) * 1000)
            self._under_way[kind] += 1
            servers[number % len(servers)].send(request)
        result.seconds = time.perf_counter() - began
        until = time.perf_counter() + patience
        while self._under_way.total() and time.perf_counter() < until:
            await asyncio.sleep(0.01)
        result.cpu_seconds = time.process_time() - cpu
        for kind, left in self._under_way.items():
            result.errors[kind] += ["never answered"] * left
        for server in servers:
            server.close()
        return result

    def _on_answer(self, request: ScheduledRequest, status: int, body: bytes) -> None:
        self._under_way[request.kind] -= 1
        self._result.milliseconds[request.kind].append((time.perf_counter() - request.due) * 1000)
        if status != EXPECTED_STATUS_BY_KIND[request.kind]:
            self._result.errors[request.kind].append(f"{status}: {body[:200].decode(errors='replace')}")
        elif request.kind == "create":
            self._requests.jobs.append(json.loads(body)["id"])
        elif request.kind in ("event", "batch", "beacon"):
            self._result.accepted += json.loads(body)["accepted"] if body else 1


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(LoadRun(LoadOrder(**json.load(sys.stdin)))()))))
