"""OpenTelemetry spans. Unless an endpoint is set, nothing is loaded and spans cost next to nothing.

A span says which operation ran, when and how it ended. It never contains a prompt, path, address or error message."""

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACEPARENT_PATTERN = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
SHUTDOWN_SECONDS = 3.0

_provider: Any = None
_tracer: Any = None


class Span:
    """A running span. `trace_id` is empty while tracing is off."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    @property
    def trace_id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}" if self._span is not None else ""

    def set_attributes(self, **attributes: str | int | float | bool) -> None:
        if self._span is not None:
            self._span.set_attributes({f"copydesk.{name}": value for name, value in attributes.items()})

    def mark_failed(self, reason: str) -> None:
        """Marks the span as failed. `reason` is a code or a class name, since messages may quote content."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, reason)


NO_SPAN = Span()


def start_tracing() -> None:
    """Starts tracing if the standard environment variables enable it.

    The provider is not registered globally, so that libraries cannot add spans to it.
    """
    global _provider, _tracer
    if not any(map(os.environ.get, ENDPOINT_VARIABLES)) or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or _tracer is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        log.warning("a tracing endpoint is set, but tracing is off: install Copydesk with the extra 'tracing'")
        return
    from copydesk import __version__

    resource = Resource.create({SERVICE_VERSION: __version__})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "copydesk"}))
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = _provider.get_tracer("copydesk", __version__)


def stop_tracing() -> None:
    """Sends the remaining spans, for at most SHUTDOWN_SECONDS.

    An unavailable collector must not delay the end of the process.
    """
    global _provider, _tracer
    provider = _provider
    _provider = None
    _tracer = None
    if provider is not None:
        thread = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(SHUTDOWN_SECONDS)


def is_enabled() -> bool:
    return _tracer is not None


@contextmanager
def start_span(
    name: str, *, parent: str | None = None, is_server: bool = False, started_at: int | None = None, **attributes: Any
) -> Iterator[Span]:
    """Runs the body in a new span, which is marked as failed if the body raises.

    `parent` is a traceparent from another process; `started_at` is in milliseconds since 1970.
    """
    if _tracer is None:
        yield NO_SPAN
        return
    from opentelemetry import context, trace

    parent_context = _context_from_traceparent(parent)
    otel_span = _tracer.start_span(
        name,
        context=parent_context,
        kind=trace.SpanKind.SERVER if is_server else trace.SpanKind.INTERNAL,
        start_time=started_at * 1_000_000 if started_at is not None else None,
        attributes={f"copydesk.{fact}": value for fact, value in attributes.items() if value is not None},
    )
    token = context.attach(trace.set_span_in_context(otel_span, parent_context))
    started_span = Span(otel_span)
    try:
        yield started_span
    except BaseException as error:
        if getattr(error, "status", 500) >= 500:  # to refuse a request is not a failure
            started_span.mark_failed(str(getattr(error, "reason", None) or type(error).__name__))
        raise
    finally:
        context.detach(token)
        otel_span.end()


def add_span_attributes(**attributes: str | int | float | bool) -> None:
    """Adds attributes to the current span."""
    if _tracer is not None:
        from opentelemetry import trace

        Span(trace.get_current_span()).set_attributes(**attributes)


def current_traceparent() -> str | None:
    """Returns the current span as a traceparent, to continue the trace in another process; None without a span."""
    if _tracer is None:
        return None
    from opentelemetry import trace

    span_context = trace.get_current_span().get_span_context()
    return (
        f"00-{span_context.trace_id:032x}-{span_context.span_id:016x}-{span_context.trace_flags:02x}"
        if span_context.is_valid
        else None
    )


def _context_from_traceparent(traceparent: str | None) -> Any:
    """Parses a W3C traceparent. Returns None, which means the current context, if it is missing or malformed."""
    if traceparent is None or not TRACEPARENT_PATTERN.fullmatch(traceparent) or traceparent.startswith("ff"):
        return None
    from opentelemetry import trace

    _, trace_id, span_id, flags = traceparent.split("-")
    span_context = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16) & 1))
    return trace.set_span_in_context(trace.NonRecordingSpan(span_context))
