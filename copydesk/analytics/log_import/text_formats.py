"""The logs of nginx and Apache: common, combined (with a referrer and an agent), and each with a host before it."""

import re
from collections.abc import Iterator

from copydesk.analytics.log_import.log_line import MALFORMED, Line, asked, unescaped
from copydesk.analytics.page_view import Dropped

HOST = ADDRESS = r'([^\s"\\]{1,256}+) '
USER = r"\S++ (?:- |.{0,256}? )"
WHEN = r'\[([^\]\n"]{19,40}+)\] '
QUICK_REQUEST, QUICK = r'"([A-Z]++) ([^\s"\\]++) HTTP/[\d.]++" ', r'"([^"\\\n]*+)"'
REQUEST, QUOTED = r'"((?:[^"\\\n]|\\.)*+)" ', r'"((?:[^"\\\n]|\\.)*+)"'
ANSWER = r"(\d{3}) (?:\d++|-)"
REST = r"(?: (.*))?"


class Text:
    """Most lines hold nothing unusual, and a quick pattern finds a block of them at a time. Others are looked at one by
    one: those with something escaped, an odd request, or damage."""

    def __init__(self, name: str, *, host: bool = False, agent: bool = True) -> None:
        self.name = name
        self._agent = agent
        head = (HOST if host else "()") + ADDRESS + USER + WHEN
        quick = f" {QUICK} {QUICK}" if agent else "()()"
        slow = f" {QUOTED} {QUOTED}" if agent else "()()"
        self._quick = re.compile(rf"^({head}{QUICK_REQUEST}{ANSWER}{quick}{REST}|.*)()$", re.MULTILINE | re.ASCII)
        self._slow = re.compile(head + REQUEST + ANSWER + slow + REST, re.ASCII)

    def read(self, text: str) -> Iterator[Line | Dropped | None]:
        """One for each line: the request, why there is none, or None for an empty line."""
        for line in map(Line._make, self._quick.findall(text)):
            yield line if line.status else self._looked_at(line.text)

    def whole(self, line: str) -> bool:
        """Whether a line that nothing ends is surely complete. With its agent it is; in later fields, who knows."""
        found = self._slow.fullmatch(line)
        return self._agent and found is not None and found[8] is None

    def _looked_at(self, line: str) -> Line | Dropped | None:
        found = self._slow.fullmatch(line)
        if not found:
            return MALFORMED if line.strip() else None
        host, address, when, request, status, referrer, agent, rest = found.groups("")
        method, url = asked(unescaped(request))
        return Line(line, host, address, when, method, url, status, unescaped(referrer), unescaped(agent), rest)
