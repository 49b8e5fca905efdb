"""The text logs of nginx and Apache: common, combined (with referrer and user agent), and with a leading host."""

import re
from collections.abc import Iterator

from copydesk.analytics.log_import.log_line import MALFORMED, LogLine, parse_request_line, unescape
from copydesk.analytics.page_view import Dropped

HOST = r'([^\s",\\]{1,256}+) '
ADDRESS = r'([^\s",\\]{1,256}+(?:, ?[^\s",\\]{1,256}+){0,20}+) '
"""One address, or the hops of a forwarding header, separated by commas."""
IDENT_AND_USER = r"\S++ (?:- |(?!- )(?:(?! - )[^\n]){1,256}?(?<! -) )"
"""The user may contain blanks, but no lone hyphen: that is a sign of two lines that were joined."""
TIME = r'\[([^\]\n"]{19,40}+)\] '
SIMPLE_REQUEST, SIMPLE_QUOTED = r'"([A-Z]++) ([^\s"\\]++) HTTP/[\d.]++" ', r'"([^"\\\n]*+)"'
REQUEST, QUOTED_OR_HYPHEN = r'"((?:[^"\\\n]|\\.)*+)" ', r'(?:"((?:[^"\\\n]|\\.)*+)"|-)'
"""Some versions of Traefik write an empty referrer or user agent as a hyphen without quotes."""
STATUS_AND_SIZE = r"(\d{3}) (?:\d++|-)"
TRAILING_FIELDS, UNQUOTED_TRAILING_FIELDS = r"(?: (.*))?", r'(?: ([^"\n]*))?'
"""After the common fields, a quoted field is a sign of another format, whose visitors would be wrong."""


class TextFormat:
    """A text format.

    A fast pattern parses a block of usual lines at once; lines with escapes, unusual requests or damage are parsed one
    by one with the full pattern.
    """

    def __init__(self, name: str, *, host: bool = False, agent: bool = True) -> None:
        self.name = name
        self._has_agent = agent
        common_fields = (HOST if host else "()") + ADDRESS + IDENT_AND_USER + TIME
        simple_fields = f" {SIMPLE_QUOTED} {SIMPLE_QUOTED}" if agent else "()()"
        quoted_fields = f" {QUOTED_OR_HYPHEN} {QUOTED_OR_HYPHEN}" if agent else "()()"
        trailing_fields = TRAILING_FIELDS if agent else UNQUOTED_TRAILING_FIELDS
        self._fast_pattern = re.compile(
            rf"^({common_fields}{SIMPLE_REQUEST}{STATUS_AND_SIZE}{simple_fields}{trailing_fields}|.*)()$",
            re.MULTILINE | re.ASCII,
        )
        self._full_pattern = re.compile(
            common_fields + REQUEST + STATUS_AND_SIZE + quoted_fields + trailing_fields, re.ASCII
        )

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for an empty line."""
        for line in map(LogLine._make, self._fast_pattern.findall(text)):
            yield line if line.status else self._parse_unusual_line(line.text)

    def is_complete(self, line: str) -> bool:
        """Returns whether a last line without a newline is certainly complete.

        It is if it ends with the quote after the user agent; a field after it may be truncated.
        """
        match = self._full_pattern.fullmatch(line)
        return self._has_agent and match is not None and match[8] is None

    def _parse_unusual_line(self, line: str) -> LogLine | Dropped | None:
        match = self._full_pattern.fullmatch(line)
        if not match:
            return MALFORMED if line.strip() else None
        host, address, time, request, status, referrer, user_agent, forwarded = match.groups("")
        method, url = parse_request_line(unescape(request))
        return LogLine(
            line, host, address, time, method, url, status, unescape(referrer), unescape(user_agent), forwarded
        )
