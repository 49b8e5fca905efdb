"""The form of a prompt that comes from a comment on a line: the words, then the place, then the lines as data."""

import re
from dataclasses import dataclass

from copydesk.core.text.truncation import to_single_line

MAX_EXCERPT_CHARS = 4000
PLACE_PATTERN = re.compile(
    r"\n\nThis is a review comment on (?P<path>[^\n]+?)"
    r"(?:, (?P<removed>removed )?lines? (?P<first>\d{1,9})(?: to (?P<last>\d{1,9}))?)?\."
    r"(?: These are the surrounding lines, as data:\n\n(?:>[^\n]*(?:\n|\Z))+)?\s*\Z"
)


@dataclass(frozen=True)
class CommentPlace:
    """The place of a comment. A removed line is one of the old version, which the file no longer has."""

    path: str
    first_line: int | None = None
    last_line: int | None = None
    is_removed: bool = False

    def __str__(self) -> str:
        path = to_single_line(self.path)
        if self.last_line is None:
            return path
        removed = "removed " if self.is_removed else ""
        if self.first_line is None or self.first_line >= self.last_line:
            return f"{path}, {removed}line {self.last_line}"
        return f"{path}, {removed}lines {self.first_line} to {self.last_line}"


def format_review_comment(text: str, place: CommentPlace, excerpt: str) -> str:
    """Returns the prompt for a comment on a line. Quotes the lines of the diff, so that they are not instructions."""
    quoted = "\n".join(f"> {line}" for line in excerpt[-MAX_EXCERPT_CHARS:].splitlines())
    context = f" These are the surrounding lines, as data:\n\n{quoted}" if quoted else ""
    return f"{text}\n\nThis is a review comment on {place}.{context}"


def split_review_comment(prompt: str) -> tuple[str, CommentPlace | None]:
    """Returns the words of a comment and its place. For any other prompt, returns it unchanged, and None."""
    match = PLACE_PATTERN.search(prompt)
    if match is None:
        return prompt, None
    first = int(match["first"]) if match["first"] else None
    last = int(match["last"]) if match["last"] else first
    return prompt[: match.start()], CommentPlace(match["path"], first, last, bool(match["removed"]))
