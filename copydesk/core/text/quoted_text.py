"""Removes what a prompt only quotes, since a person did not ask for what a quotation says."""

import re

LIST_MARKS = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
QUOTED_LINE_PATTERN = re.compile(rf"{LIST_MARKS}>")
BARRED_LINE_PATTERN = re.compile(rf"{LIST_MARKS}\|")
FENCE_PATTERN = re.compile(rf"{LIST_MARKS}(`{{3,}}|~{{3,}})")


def remove_quoted_lines(text: str) -> str:
    """Returns the text without lines that begin with `>`."""
    return "\n".join(line for line in text.splitlines() if not QUOTED_LINE_PATTERN.match(line))


def remove_quotes_and_code(text: str) -> str:
    """Returns the text without lines that begin with `>` or a bar, and without fenced blocks.

    An unclosed block extends to the end.
    """
    lines = []
    open_fence = ""
    for line in text.splitlines():
        fence = FENCE_PATTERN.match(line)
        if open_fence:
            open_fence = "" if fence and fence[1].startswith(open_fence) else open_fence
        elif fence:
            open_fence = fence[1]
        elif not QUOTED_LINE_PATTERN.match(line) and not BARRED_LINE_PATTERN.match(line):
            lines.append(line)
    return "\n".join(lines)
