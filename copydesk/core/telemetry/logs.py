"""Logs as text or JSON. Each record carries its context: the request, the job, the attempt and the trace."""

import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from copydesk.core.settings import Settings

log = logging.getLogger(__name__)

UNSAFE_CHARS_PATTERN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that would break a line, control a terminal, or change the direction of text."""
NOISY_LOGGERS = (
    "httpx2",
    "httpx",
    "httpcore2",
    "httpcore",
    "openai",
    "anthropic",
    "google_genai",
    "urllib3",
    "alembic",
)
"""Libraries whose detailed records contain complete URLs, headers and bodies."""
TEXT_CONTEXT_KEYS = ("requestId", "jobId")
"""The context fields in text logs; with them a person can find the rest."""

_context: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)


def bind_log_context(**fields: Any) -> None:
    """Adds fields to all records in the rest of this context. Each request has a separate context."""
    bound = _context.get()
    _context.set({**bound, **fields} if bound else fields)


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Adds fields to all records inside the block."""
    token = _context.set({**(_context.get() or {}), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def configure_logging(settings: Settings) -> None:
    """Sends all records of this process, including those of libraries, to standard error in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old_handler in root.handlers[:]:
        root.removeHandler(old_handler)
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: log.critical("unhandled exception", exc_info=error)
    threading.excepthook = lambda died: log.error("unhandled exception in a thread", exc_info=_exc_info(died))
    for library in NOISY_LOGGERS:
        logging.getLogger(library).setLevel("WARNING")
    for library in ("clickhouse_connect", "urllib3"):
        logging.getLogger(library).setLevel("ERROR")  # we log an unavailable ClickHouse ourselves


class TextFormatter(logging.Formatter):
    """Formats a record as one line, with its traceback indented below.

    Indenting and escaping keep logged text from forging a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = _context_fields(record)
        context = " ".join(str(fields[name]) for name in TEXT_CONTEXT_KEYS if name in fields)
        line = f"{_format_time(record)} {record.levelname} {record.name}: {_format_message(record)}" + (
            context and f" [{context}]"
        )
        exception_lines = [
            f"    {escape_unsafe(exception_line)}" for exception_line in _format_exception(record).splitlines()
        ]
        return "\n".join([escape_unsafe(line), *exception_lines])


class JsonFormatter(logging.Formatter):
    """Formats a record, including its exception, as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _format_message(record),
            **_context_fields(record),
        }
        if failure := _format_exception(record):
            line["exception"] = failure
        return json.dumps(line, default=str)  # escapes all non-ASCII characters and line endings


def _exc_info(hook_args: threading.ExceptHookArgs) -> Any:
    return hook_args.exc_type, hook_args.exc_value, hook_args.exc_traceback


def escape_unsafe(text: str) -> str:
    return UNSAFE_CHARS_PATTERN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _format_message(record: logging.LogRecord) -> str:
    """Returns the formatted message, or the unformatted one if its arguments do not match.

    A mistake in a logging call must neither lose the record nor print a traceback.
    """
    try:
        return record.getMessage()
    except Exception:
        return f"{record.msg} (its arguments do not match)"


def _context_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Returns the fields of the context, and those passed to this record as extra={"about": …}."""
    return {**(_context.get() or {}), **getattr(record, "about", {})}


def _format_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format_exception(record: logging.LogRecord) -> str:
    return logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
