"""Log lines for a person or for a program, each with what it is about: the request, the job, the attempt, the trace."""

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
"""Signs that would break a line, steer a terminal, or turn what is read around."""
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
"""Libraries whose details are addresses with all they carry, headers and bodies."""
TEXT_CONTEXT_KEYS = ("requestId", "jobId")
"""What a person needs to find the rest."""

_context: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)


def bind_log_context(**fields: Any) -> None:
    """For the rest of this context: a request has one of its own."""
    bound = _context.get()
    _context.set({**bound, **fields} if bound else fields)


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """What is logged inside carries these facts."""
    token = _context.set({**(_context.get() or {}), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def configure_logging(settings: Settings) -> None:
    """Everything that is logged in this process, by whichever library, goes to standard error in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old_handler in root.handlers[:]:
        root.removeHandler(old_handler)
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: log.critical("ended by an error", exc_info=error)
    threading.excepthook = lambda died: log.error("a thread ended by an error", exc_info=_exc_info(died))
    for library in NOISY_LOGGERS:
        logging.getLogger(library).setLevel("WARNING")
    for library in ("clickhouse_connect", "urllib3"):
        logging.getLogger(library).setLevel("ERROR")  # that ClickHouse is away is our own line to say


class TextFormatter(logging.Formatter):
    """One line for a person, and under it, indented, whatever went wrong: no line of another's making begins at the
    margin."""

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
    """One object on one line, exceptions and all."""

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
        return json.dumps(line, default=str)  # every sign beyond ASCII is escaped, and so is each that ends a line


def _exc_info(hook_args: threading.ExceptHookArgs) -> Any:
    return hook_args.exc_type, hook_args.exc_value, hook_args.exc_traceback


def escape_unsafe(text: str) -> str:
    return UNSAFE_CHARS_PATTERN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _format_message(record: logging.LogRecord) -> str:
    """A slip in a call to the log must cost neither the line nor, in a traceback of its own, many."""
    try:
        return record.getMessage()
    except Exception:
        return f"{record.msg} (with arguments that do not fit)"


def _context_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Those of the context, and those that this one line was given as extra={"about": …}."""
    return {**(_context.get() or {}), **getattr(record, "about", {})}


def _format_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format_exception(record: logging.LogRecord) -> str:
    return logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
