"""Tokenizes JSON and JavaScript object literals in linear time."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages.lines import Span, mask_spans

TOKEN_PATTERN = re.compile(r"//[^\n]*|/\*|[\"'{}\[\]:,]|[A-Za-z_$][\w$]*")
STRING_CONTENT_PATTERNS = {'"': re.compile(r"(?:[^\"\\\n]|\\.)*+", re.S), "'": re.compile(r"(?:[^'\\\n]|\\.)*+", re.S)}
"""The content of a string, by its quote."""


def tokenize(text: str) -> Iterator[Span]:
    """Yields comments, strings, brackets, colons, commas and names.

    An unclosed string or comment is not a token. The scanner remembers how far it searched for the end, because
    another one that starts before that point has no end either."""
    position = 0
    searched_until = {'"': 0, "'": 0, "/*": 0}
    while match := TOKEN_PATTERN.search(text, position):
        start = match.start()
        position = match.end()
        opener = match.group()
        if opener in searched_until:
            if start < searched_until[opener]:
                continue
            end, is_closed = _find_end(text, opener, position)
            if not is_closed:
                searched_until[opener] = end
                continue
            position = end
        yield start, position


def mask_comments(text: str) -> str:
    """Replaces comments with spaces. Positions and lines stay the same."""
    return mask_spans(text, [(start, end) for start, end in tokenize(text) if text.startswith(("//", "/*"), start)])


def _find_end(text: str, opener: str, position: int) -> tuple[int, bool]:
    """Returns where a string or a comment ends, and whether it is closed."""
    if opener == "/*":
        closer = text.find("*/", position)
        return (closer + 2, True) if closer >= 0 else (len(text), False)
    content = STRING_CONTENT_PATTERNS[opener].match(text, position)
    content_end = content.end() if content else position
    is_closed = text.startswith(opener, content_end)
    return content_end + is_closed, is_closed
