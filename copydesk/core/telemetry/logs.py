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

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Signs that would break a line, steer a terminal, or turn what is read around."""
TALKATIVE = ("httpx2", "httpx", "httpcore2", "httpcore", "openai", "anthropic", "google_genai", "urllib3", "alembic")
"""Libraries whose details are addresses with all they carry, headers and bodies."""
IN_BRIEF = ("requestId", "jobId")
"""What a person needs to find the rest."""

_about: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)


def set_about(**facts: Any) -> None:
    """For the rest of this context: a request has one of its own."""
    known = _about.get()
    _about.set({**known, **facts} if known else facts)


@contextmanager
def about(**facts: Any) -> Iterator[None]:
    """What is logged inside carries these facts."""
    token = _about.set({**(_about.get() or {}), **facts})
    try:
        yield
    finally:
        _about.reset(token)


def set_up(settings: Settings) -> None:
    """Everything that is logged in this process, by whichever library, goes to standard error in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if settings.log_format == "json" else Text())
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: log.critical("ended by an error", exc_info=error)
    threading.excepthook = lambda died: log.error("a thread ended by an error", exc_info=_told(died))
    for library in TALKATIVE:
        logging.getLogger(library).setLevel("WARNING")
    for library in ("clickhouse_connect", "urllib3"):
        logging.getLogger(library).setLevel("ERROR")  # that ClickHouse is away is our own line to say


class Text(logging.Formatter):
    """One line for a person, and under it, indented, whatever went wrong: no line of another's making begins at the
    margin."""

    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        brief = " ".join(str(facts[name]) for name in IN_BRIEF if name in facts)
        line = f"{_time(record)} {record.levelname} {record.name}: {_message(record)}" + (brief and f" [{brief}]")
        below = [f"    {escaped(under)}" for under in _failure(record).splitlines()]
        return "\n".join([escaped(line), *below])


class Json(logging.Formatter):
    """One object on one line, exceptions and all."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **_facts(record),
        }
        if failure := _failure(record):
            line["exception"] = failure
        return json.dumps(line, default=str)  # every sign beyond ASCII is escaped, and so is each that ends a line


def _told(died: threading.ExceptHookArgs) -> Any:
    return died.exc_type, died.exc_value, died.exc_traceback


def escaped(text: str) -> str:
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _message(record: logging.LogRecord) -> str:
    """A slip in a call to the log must cost neither the line nor, in a traceback of its own, many."""
    try:
        return record.getMessage()
    except Exception:
        return f"{record.msg} (with arguments that do not fit)"


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """Those of the context, and those that this one line was given as extra={"about": …}."""
    return {**(_about.get() or {}), **getattr(record, "about", {})}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failure(record: logging.LogRecord) -> str:
    return logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
