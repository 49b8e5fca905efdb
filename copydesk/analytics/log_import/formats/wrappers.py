"""Programs that put each line of another log into a line of their own: syslog, journald, Docker, Kubernetes."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from copydesk.analytics.log_import.formats.base import LogFormat
from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.page_view import Dropped

SYSLOG_PATTERN = re.compile(
    r"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) "
    r"\S+ [^\s:\[\]]{1,100}(?:\[\d+\])?: (.*)"
)
"""The files of rsyslog and syslog-ng, and the output of journalctl."""
RFC5424_PATTERN = re.compile(
    r"(?:<\d{1,3}>)?1 \d{4}-\d\d-\d\dT\S+ \S+ \S+ \S+ \S+ (?:-|\[(?:[^\]\\]|\\.)*\](?:\[(?:[^\]\\]|\\.)*\])*) ?(.*)"
)
CRI_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) ([FP])(?::\S+)? (.*)")
COMPOSE_PATTERN = re.compile(r"[\w.-]{1,80} +\| (.*)")
MAX_PARTIAL_CHARS = 1 << 16

INCOMPLETE = "\0"
"""The line is the first part of a longer one, whose rest follows."""


class Wrapper(ABC):
    """Returns the line inside of a line. Has state, because long lines are split into several."""

    def __init__(self) -> None:
        self._partial = ""

    @abstractmethod
    def unwrap(self, line: str) -> str | None:
        """Returns the inner line, INCOMPLETE for a first part, or None if the line is not wrapped in this way."""

    def _join(self, part: str, *, is_last: bool) -> str:
        joined = (self._partial + part)[:MAX_PARTIAL_CHARS]
        self._partial = "" if is_last else joined
        return joined if is_last else INCOMPLETE


class SyslogWrapper(Wrapper):
    def unwrap(self, line: str) -> str | None:
        match = RFC5424_PATTERN.fullmatch(line) or SYSLOG_PATTERN.fullmatch(line)
        return match[1].removeprefix("\ufeff") if match else None


class JournalWrapper(Wrapper):
    """The output of `journalctl -o json`."""

    def unwrap(self, line: str) -> str | None:
        record = _parse_object(line, '"MESSAGE"')
        message = record.get("MESSAGE")
        if isinstance(message, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in message):
            return bytes(message).decode("utf-8", "surrogateescape")  # journald writes text that is not UTF-8 as bytes
        return message if isinstance(message, str) and "__REALTIME_TIMESTAMP" in record else None


class DockerWrapper(Wrapper):
    """Docker's log files (the `json-file` driver)."""

    def unwrap(self, line: str) -> str | None:
        record = _parse_object(line, '"log"')
        text = record.get("log")
        if not isinstance(text, str) or "stream" not in record or "time" not in record:
            return None
        return self._join(text.rstrip("\r\n"), is_last=text.endswith("\n"))


class CriWrapper(Wrapper):
    """The log files of Kubernetes containers."""

    def unwrap(self, line: str) -> str | None:
        match = CRI_PATTERN.fullmatch(line)
        return self._join(match[2], is_last=match[1] == "F") if match else None


class ComposeWrapper(Wrapper):
    """The output of `docker compose logs`."""

    def unwrap(self, line: str) -> str | None:
        match = COMPOSE_PATTERN.fullmatch(line)
        return match[1] if match else None


WRAPPERS: dict[str, Callable[[], Wrapper]] = {
    "syslog": SyslogWrapper,
    "journald": JournalWrapper,
    "docker": DockerWrapper,
    "cri": CriWrapper,
    "compose": ComposeWrapper,
}


class WrappedFormat:
    """A format whose lines are wrapped. Lines without a wrapper are parsed as they are."""

    def __init__(self, wrapper: Wrapper, inner: LogFormat) -> None:
        self.name = inner.name
        self._wrapper = wrapper
        self._inner = inner

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line. A line that is the first part of a longer one is not a request of its own."""
        lines = text.split("\n")
        inner_lines = [self._unwrap(line) for line in lines]
        joined = "\n".join("" if line == INCOMPLETE else line for line in inner_lines)
        for line, parsed in zip(lines, self._inner.parse_lines(joined), strict=True):
            yield parsed._replace(text=line) if isinstance(parsed, LogLine) else parsed

    def is_complete(self, line: str) -> bool:
        inner_line = self._unwrap(line)
        return inner_line != INCOMPLETE and self._inner.is_complete(inner_line)

    def _unwrap(self, line: str) -> str:
        inner_line = self._wrapper.unwrap(line)
        return line if inner_line is None else inner_line.replace("\n", " ")


def _parse_object(line: str, name: str) -> dict[str, object]:
    """Returns a JSON object, or an empty one if the line is none or does not contain the name."""
    if not line.startswith("{") or name not in line:
        return {}
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
