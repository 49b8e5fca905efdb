"""A log line has its context, and outside input cannot forge one."""

import json
import logging
import subprocess
import sys
from contextvars import copy_context
from typing import Any

import pytest

from copydesk.core.telemetry import logs

HOSTILE = "fine\n2026-01-01T00:00:00.000Z ERROR copydesk: forged\r\x1b[2J\x85\u2028\u202eend\ud800"


def make_record(message: str, *arguments: Any, failure: BaseException | None = None) -> logging.LogRecord:
    told = (type(failure), failure, failure.__traceback__) if failure else None
    return logging.LogRecord("copydesk.some", logging.WARNING, __file__, 1, message, arguments, told)


def make_raised_error() -> ValueError:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        return error


def test_json_line_is_one_object_with_its_context_fields() -> None:
    with logs.log_context(jobId="job_1", attempt=2), logs.log_context(traceId="abc"):
        line = json.loads(logs.JsonFormatter().format(make_record("went %s", "wrong")))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "copydesk.some",
        "message": "went wrong",
        "jobId": "job_1",
        "attempt": 2,
        "traceId": "abc",
    }


def test_context_fields_end_with_their_context() -> None:
    def inside() -> str:
        logs.bind_log_context(requestId="req_1")
        return logs.TextFormatter().format(make_record("x"))

    assert copy_context().run(inside).endswith("copydesk.some: x [req_1]")
    assert logs.TextFormatter().format(make_record("x")).endswith("copydesk.some: x")


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.TextFormatter()])
def test_message_cannot_forge_a_log_line(formatter: logging.Formatter) -> None:
    line = formatter.format(make_record("%s", HOSTILE))
    assert len(line.splitlines()) == 1
    assert not logs.UNSAFE_CHARS_PATTERN.search(line)


def test_an_exception_is_one_line_of_json() -> None:
    line = logs.JsonFormatter().format(make_record("failed", failure=make_raised_error()))
    assert len(line.splitlines()) == 1
    told = json.loads(line)
    assert told["exception"].startswith("Traceback")
    assert "ValueError: fine" in told["exception"]


def test_text_format_prints_the_traceback_under_its_line() -> None:
    first, *under = logs.TextFormatter().format(make_record("failed", failure=make_raised_error())).split("\n")
    assert first.endswith("WARNING copydesk.some: failed")
    assert under[0] == "    Traceback (most recent call last):"
    assert any("ValueError: fine" in line for line in under)
    assert all(line.startswith("    ") and not logs.UNSAFE_CHARS_PATTERN.search(line) for line in under)


def test_unicode_stays_readable() -> None:
    assert "Größe – 文档 🎉" in logs.TextFormatter().format(make_record("Größe – 文档 🎉"))
    assert json.loads(logs.JsonFormatter().format(make_record("Größe – 文档 🎉")))["message"] == "Größe – 文档 🎉"


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.TextFormatter()])
def test_wrong_format_arguments_do_not_lose_the_line(formatter: logging.Formatter) -> None:
    assert "%d jobs (its arguments do not match)" in formatter.format(make_record("%d jobs", "no number"))


@pytest.mark.deep
def test_uncaught_exceptions_and_warnings_are_logged() -> None:
    """Runs in a separate process, because it tests the complete output of a process."""
    program = """
import threading, warnings
from copydesk.core.telemetry import logs
from copydesk.core.settings import Settings
logs.configure_logging(Settings(log_format="json"))
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise ValueError("a\\nb")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert (ended.returncode, [line["level"] for line in lines]) == (1, ["warning", "error", "critical"])
    assert "ZeroDivisionError" in lines[1]["exception"]
    assert lines[2]["exception"].endswith("ValueError: a\nb")
