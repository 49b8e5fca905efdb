"""The load generator, which runs in a separate process: keep-alive connections, each sends one request at a time."""

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate

PAGE_COUNT = 2_000
VISITOR_COUNT = 20_000
AGENTS = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:142.0) Gecko/20100101 Firefox/142.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 "
    "Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
)


@dataclass(frozen=True)
class GeneratorOrder:
    port: int
    kind: str
    """`event`, `beacon` or `batch`."""
    path: str
    key: str
    connections: int
    requests: int
    """Total number of requests after the warm-up."""
    together: int = 1
    """Events per request."""
    seed: int = 1


@dataclass(frozen=True)
class GeneratorResult:
    milliseconds: list[float]
    seconds: float
    cpu_seconds: float
    """CPU seconds of the generator."""


def build_requests(order: GeneratorOrder) -> list[bytes]:
    """Builds all requests before the measurement, so that building them is not measured."""
    events = _generate_events(order.seed)
    return [_encode_request(order, [next(events) for _ in range(order.together)]) for _ in range(order.requests)]


def _generate_events(seed: int) -> Iterator[dict[str, object]]:
    """Generates events with Zipf-distributed pages, returning visitors and agents of every class; each has a new id."""
    chance = random.Random(seed)
    weights = list(accumulate(1 / rank for rank in range(1, PAGE_COUNT + 1)))
    pages = range(PAGE_COUNT)
    while True:
        [page] = chance.choices(pages, cum_weights=weights)
        visitor = chance.randrange(VISITOR_COUNT)
        yield {
            "url": f"https://docs.example.com/section-{page % 40}/page-{page}",
            "userAgent": AGENTS[visitor % len(AGENTS)],
            "ip": f"10.{visitor >> 16}.{visitor >> 8 & 255}.{visitor & 255}",
            "referrer": "https://www.example.org/search",
            "status": 200,
            "eventId": f"{chance.getrandbits(96):x}",
        }


def _encode_request(order: GeneratorOrder, events: list[dict[str, object]]) -> bytes:
    [event] = events[:1]
    kind, extra = "application/json", f"Authorization: Bearer {order.key}\r\n"
    body_data: object = events if order.kind == "batch" else event
    if order.kind == "beacon":
        body_data = {"u": event["url"], "r": event["referrer"], "e": event["eventId"]}
        kind = "text/plain;charset=UTF-8"
        extra = f"User-Agent: {event['userAgent']}\r\nOrigin: https://docs.example.com\r\nAccept: */*\r\n"
    body = json.dumps(body_data).encode()
    head = f"POST {order.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n{extra}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class GeneratorConnection(asyncio.Protocol):
    """Sends the next request as soon as the previous one is answered with 202."""

    def __init__(self, bodies: Iterator[bytes], times: list[float]) -> None:
        self._bodies, self._times = bodies, times
        self._answer = b""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send_next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or len(body) < _parse_content_length(head):
            return
        if not head.startswith(b"HTTP/1.1 202"):
            self.finished.set_exception(RuntimeError(self._answer.decode()))
            return
        self._times.append((time.perf_counter() - self._began) * 1000)
        self._answer = b""
        self._send_next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(error or RuntimeError("the server hung up"))

    def _send_next(self) -> None:
        body = next(self._bodies, None)
        if body is None:
            self.finished.set_result(None)
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(body)


def _parse_content_length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


async def run_generator(order: GeneratorOrder) -> GeneratorResult:
    bodies, times = iter(build_requests(order)), list[float]()
    cpu, began = time.process_time(), time.perf_counter()
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: GeneratorConnection(bodies, times), "127.0.0.1", order.port))[1]
        for _ in range(order.connections)
    ]
    await asyncio.gather(*(connection.finished for connection in connections))
    return GeneratorResult(times, time.perf_counter() - began, time.process_time() - cpu)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run_generator(GeneratorOrder(**json.load(sys.stdin)))))))
