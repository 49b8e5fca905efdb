"""A language model that follows a script: a real HTTP server that speaks OpenAI's chat-completions format."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Said:
    """An answer of the model: a text, tool calls, or both. Arguments given as a string go out as they are."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 20
    finish_reason: str = ""

    def to_wire(self, position: int, model: str) -> dict[str, Any]:
        calls = [
            {"id": f"call_{position}_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(self.calls)
        ]
        message = {"role": "assistant", "content": self.text or None} | ({"tool_calls": calls} if calls else {})
        finish_reason = self.finish_reason or ("tool_calls" if calls else "stop")
        return {
            "id": f"chatcmpl-{position}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {
                "prompt_tokens": self.input_tokens,
                "completion_tokens": self.output_tokens,
                "total_tokens": self.input_tokens + self.output_tokens,
            },
        }


@dataclass(frozen=True)
class Sent:
    """An answer given byte for byte."""

    status: int
    body: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Hung:
    """Silence, and then an answer, or a closed connection when there is none."""

    seconds: float
    then: "Answer | None" = None


Answer = Said | Sent | Hung
Turn = Answer | Sequence[Answer]
"""A sequence answers repeated tries of one turn, its last answer for all further ones: [hang(30), say("…")]."""


def say(text: str, *, input_tokens: int = 100, output_tokens: int = 20, finish_reason: str = "") -> Said:
    return Said(text, (), input_tokens, output_tokens, finish_reason)


def call(name: str, arguments: dict[str, Any] | str, *, text: str = "") -> Said:
    return Said(text, ((name, arguments if isinstance(arguments, str) else json.dumps(arguments)),))


def together(*answers: Said) -> Said:
    """Several tool calls in one answer."""
    return replace(answers[0], calls=tuple(one for answer in answers for one in answer.calls))


def fail(status: int, message: str = "The script says so.", *, retry_after: float | None = None) -> Sent:
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Sent(status, json.dumps({"error": {"message": message, "type": "error", "code": None}}), headers)


def send(body: str, *, status: int = 200) -> Sent:
    return Sent(status, body)


def hang(seconds: float, then: Answer | None = None) -> Hung:
    return Hung(seconds, then)


def drop() -> Hung:
    """Closes the connection without a word."""
    return Hung(0)


@dataclass(frozen=True)
class Request:
    body: dict[str, Any]
    headers: dict[str, str]
    number: int
    """Counted from 0 over the life of the server."""

    @property
    def turn(self) -> int:
        """How often the model has spoken in this conversation."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])


@dataclass
class ModelServer:
    """Answers each request with the next turn of the script, or with what a function makes of the request.

    With `by_turn` the place in the script comes from the conversation in the request, so that a worker which
    resumes a conversation, or asks again, hears what its predecessor would have heard.
    `on_request` runs before the answer, in the request's thread: the place to kill a worker in mid-call.
    """

    script: Sequence[Turn] | Callable[[dict[str, Any]], Answer]
    by_turn: bool = False
    on_request: Callable[[Request], None] | None = None
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: dict[int, int] = {}
        self.closing = threading.Event()

    def __enter__(self) -> "ModelServer":
        self._server = _Server(("127.0.0.1", 0), _Handler)
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
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[Answer, int]:
        """The answer, and its place in the script."""
        with self._lock:
            request = Request(body, headers, len(self.requests))
            self.requests.append(request)
            place = request.turn if self.by_turn else request.number
            attempt = self._tries.get(place, 0)
            self._tries[place] = attempt + 1
        if self.on_request is not None:
            self.on_request(request)
        return self._scripted(body, place, attempt), place

    def _scripted(self, body: dict[str, Any], place: int, attempt: int) -> Answer:
        if callable(self.script):
            return self.script(body)
        if place >= len(self.script):
            return fail(400, f"The script ends after {len(self.script)} turns.")
        turn = self.script[place]
        return turn[min(attempt, len(turn) - 1)] if isinstance(turn, Sequence) else turn


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, killed or cancelled, is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            return self._send(fail(404, f"There is nothing at {self.path}."))
        if body.get("stream"):
            return self._send(fail(400, "This server does not stream."))
        answer, place = self.server.model.answer(body, {name.lower(): value for name, value in self.headers.items()})
        while isinstance(answer, Hung):
            self.server.model.closing.wait(answer.seconds)
            if answer.then is None or self.server.model.closing.is_set():
                self.close_connection = True
                return None
            answer = answer.then
        if isinstance(answer, Said):
            answer = Sent(200, json.dumps(answer.to_wire(place, body["model"])))
        return self._send(answer)

    def _send(self, answer: Sent) -> None:
        data = answer.body.encode()
        self.send_response(answer.status)
        for name, value in (("Content-Type", "application/json"), *answer.headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests say what they have to say themselves."""
