"""A scripted language model: a real HTTP server with the APIs of OpenAI, Anthropic and Google."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from tests.support.models.answers import (
    Answer,
    ErrorAnswer,
    FaultyStream,
    HangingAnswer,
    ModelAnswer,
    RawAnswer,
    Turn,
    call,
    call_several,
    cut,
    drop,
    fail,
    garble,
    hang,
    say,
    send,
    slow_down,
    stall,
)
from tests.support.models.dialect import Dialect
from tests.support.models.dialects import chat_dialect, find_dialect

__all__ = [
    "Answer",
    "ErrorAnswer",
    "FaultyStream",
    "HangingAnswer",
    "ModelAnswer",
    "ModelRequest",
    "ModelServer",
    "RawAnswer",
    "Turn",
    "call",
    "call_several",
    "cut",
    "drop",
    "fail",
    "garble",
    "hang",
    "say",
    "send",
    "slow_down",
    "stall",
]


@dataclass(frozen=True)
class ModelRequest:
    body: dict[str, Any]
    headers: dict[str, str]
    number: int
    """Counts from 0 over the lifetime of the server."""
    dialect: Dialect
    at: float
    """The time of the request, by time.monotonic()."""
    port: int
    """The client's port, which identifies its connection."""

    @property
    def turn(self) -> int:
        """Returns how many answers of the model the conversation contains."""
        return self.dialect.count_turns(self.body)


@dataclass
class ModelServer:
    """Answers each request with the next turn of the script, or with the result of a function.

    With `by_turn`, the conversation in the request determines the turn, so that a worker that resumes a conversation or
    retries receives the same answer as its predecessor. `on_request` runs before the answer, in the request's thread: a
    place to kill a worker during a call.
    """

    script: Sequence[Turn] | Callable[[dict[str, Any]], Answer]
    by_turn: bool = False
    on_request: Callable[[ModelRequest], None] | None = None
    requests: list[ModelRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: dict[int, int] = {}
        self._open_connections = 0
        self._connection_changed = threading.Condition(self._lock)
        self.closing = threading.Event()

    def __enter__(self) -> "ModelServer":
        self._server = _HttpServer(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    @property
    def addresses(self) -> dict[str, str]:
        """Returns the base URL for each provider's library."""
        return {"openai": self.url, "anthropic": self.root, "google": self.root}

    def answer(self, dialect: Dialect, body: dict[str, Any], headers: dict[str, str], port: int) -> tuple[Answer, int]:
        """Returns the answer, and its position in the script."""
        with self._lock:
            request = ModelRequest(body, headers, len(self.requests), dialect, time.monotonic(), port)
            self.requests.append(request)
            place = request.turn if self.by_turn else request.number
            attempt = self._tries.get(place, 0)
            self._tries[place] = attempt + 1
        if self.on_request is not None:
            self.on_request(request)
        return self._find_answer(body, place, attempt), place

    def count_connection(self, change: int) -> None:
        with self._connection_changed:
            self._open_connections += change
            self._connection_changed.notify_all()

    def wait_until_disconnected(self) -> bool:
        """Returns whether all connections were closed in time."""
        with self._connection_changed:
            return self._connection_changed.wait_for(lambda: self._open_connections == 0, 60)

    def _find_answer(self, body: dict[str, Any], place: int, attempt: int) -> Answer:
        if callable(self.script):
            return self.script(body)
        if place >= len(self.script):
            return fail(400, f"The script ends after {len(self.script)} turns.")
        turn = self.script[place]
        return turn[min(attempt, len(turn) - 1)] if isinstance(turn, Sequence) else turn


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect: tests kill and cancel them."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def setup(self) -> None:
        super().setup()
        self.server.model.count_connection(1)

    def finish(self) -> None:
        super().finish()
        self.server.model.count_connection(-1)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        dialect = find_dialect(path)
        if dialect is None:
            return self._send(404, json.dumps(chat_dialect().error(fail(404, f"There is nothing at {path}."))))
        try:
            dialect.check(body)
        except (ValidationError, ValueError) as error:
            return self._send(400, json.dumps(dialect.error(fail(400, f"The request does not fit: {error}"))))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer, place = self.server.model.answer(dialect, body, headers, self.client_address[1])
        while isinstance(answer, HangingAnswer):
            self.server.model.closing.wait(answer.seconds)
            if answer.then is None or self.server.model.closing.is_set():
                self.close_connection = True
                return None
            answer = answer.then
        if isinstance(answer, ErrorAnswer):
            return self._send(answer.status, json.dumps(dialect.error(answer)), answer.headers)
        if isinstance(answer, RawAnswer):
            return self._send(answer.status, answer.body)
        streamed = answer if isinstance(answer, FaultyStream) else FaultyStream(answer)
        model = dialect.model(path, body)
        if not dialect.streams(path, body):
            return self._send(200, json.dumps(dialect.full_response(streamed.answer, place, model)))
        frames = [dialect.frame_event(event) for event in dialect.stream_events(streamed.answer, place, model)]
        return self._stream([*frames, dialect.end_of_stream()], streamed)

    def _send(self, status: int, body: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), *headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, frames: list[str], how: FaultyStream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        middle = max(1, int(len(frames) * how.cut))
        for frame in self._pace_frames(frames, how, middle):
            data = frame.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n" if data else b"")
            self.wfile.flush()
        if how.cut == 1.0 or how.politely or how.stall:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def _pace_frames(self, frames: list[str], how: FaultyStream, middle: int) -> Iterator[str]:
        for number, frame in enumerate(frames):
            if number == middle and how.stall:
                self.server.model.closing.wait(how.stall)
            elif number == middle and how.cut < 1.0:
                return
            self.server.model.closing.wait(how.pace)
            yield f"{frame[: len(frame) // 2]}\n\n" if how.garbled and number == len(frames) // 2 else frame

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Logs nothing."""
