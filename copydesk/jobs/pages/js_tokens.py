"""Tokens of JSON and of JavaScript's object literals, found in time that grows with the text alone."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages.lines import Span, blanked

TOKEN = re.compile(r"//[^\n]*|/\*|[\"'{}\[\]:,]|[A-Za-z_$][\w$]*")
INSIDE = {'"': re.compile(r"(?:[^\"\\\n]|\\.)*+", re.S), "'": re.compile(r"(?:[^'\\\n]|\\.)*+", re.S)}
"""What may stand in a string, by its quote."""


def tokens(text: str) -> Iterator[Span]:
    """Yields comments, strings, brackets, colons, commas and names.

    A quote or a comment that nothing closes is no token. How far its end was looked for is remembered, since
    another one that begins before that point has no end either."""
    position, looked_at = 0, {'"': 0, "'": 0, "/*": 0}
    while match := TOKEN.search(text, position):
        start, position, opener = match.start(), match.end(), match.group()
        if opener in looked_at:
            if start < looked_at[opener]:
                continue
            end, is_closed = _end(text, opener, position)
            if not is_closed:
                looked_at[opener] = end
                continue
            position = end
        yield start, position


def without_comments(text: str) -> str:
    """Returns the text with spaces for its comments; positions and lines stay."""
    return blanked(text, [(start, end) for start, end in tokens(text) if text.startswith(("//", "/*"), start)])


def _end(text: str, opener: str, position: int) -> tuple[int, bool]:
    """Returns where a string or a comment ends, and whether something closes it."""
    if opener == "/*":
        closer = text.find("*/", position)
        return (closer + 2, True) if closer >= 0 else (len(text), False)
    inside = INSIDE[opener].match(text, position)
    stop = inside.end() if inside else position
    is_closed = text.startswith(opener, stop)
    return stop + is_closed, is_closed
