"""The protocol of log formats."""

from collections.abc import Iterator
from typing import Protocol

from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.page_view import Dropped


class LogFormat(Protocol):
    name: str

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for a line that is not a request."""

    def is_complete(self, line: str) -> bool:
        """Returns whether a last line without a newline is certainly complete."""
