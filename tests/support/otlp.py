"""A collector of traces: a real HTTP server that accepts OTLP as protobuf, and stores the spans."""

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True)
class ReceivedSpan:
    """A received span."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    is_error: bool
    status_message: str
    attributes: dict[str, Any]
    service: str


@dataclass
class SpanCollector:
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self) -> "SpanCollector":
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packed = self.headers.get("Content-Encoding") == "gzip"
                assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
                collector.headers.append(dict(self.headers))
                collector.bodies.append(gzip.decompress(body) if packed else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment of processes that send their spans here, soon after each ends."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-collector-key=key-of-the-collector",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    @property
    def spans(self) -> list[ReceivedSpan]:
        return [span for body in list(self.bodies) for span in _parse_spans(body)]

    def wait_for(self, condition: Callable[[list[ReceivedSpan]], bool]) -> list[ReceivedSpan]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition(spans := self.spans):
            assert time.monotonic() < deadline, f"came so far: {[(span.name, span.attributes) for span in spans]}"
            time.sleep(0.05)
        return spans


def _parse_spans(body: bytes) -> list[ReceivedSpan]:
    return [
        _parse_span(span, _parse_attributes(resource.resource.attributes)["service.name"])
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _parse_span(span: Any, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        is_error=span.status.code == 2,
        status_message=span.status.message,
        attributes=_parse_attributes(span.attributes),
        service=service,
    )


def _parse_attributes(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}
