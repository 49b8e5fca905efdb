"""Markers that separate Copydesk's text from people's in titles, descriptions and comments. No input or output."""

import hashlib
import re

from copydesk.core.text.truncation import to_single_line, truncate

MAX_TITLE_CHARS = 240
MAX_BODY_CHARS = 60_000
MAX_FORGE_BODY_CHARS = 65_536
"""The longest text that every forge accepts: GitHub's limit. Others allow more."""
TRUNCATION_NOTE = "\n\n… (truncated: the text was longer than the forge allows)\n"
DETAILS_END = "\n\n</details>"
BEGIN_MARKER_PATTERN = re.compile(r"<!-- copydesk:begin(?: title=(?P<title>[0-9a-f]{16}))? -->")
END_MARKER = "<!-- copydesk:end -->"
COMMENT_MARKER = "<!-- copydesk:said -->"
GITLAB_BOT_PATTERN = re.compile(r"(?:project|group)_\d+_bot")
"""Matches the users of project and group access tokens."""
MARKER_START_PATTERN = re.compile(r"<!--(?=\s*copydesk:)")


def strip_draft_marks(title: str, mark_pattern: str) -> str:
    """Removes all draft marks from the beginning of a title."""
    return re.sub(rf"^\s*(?:{mark_pattern}\s*)+", "", title, flags=re.IGNORECASE) or title


def set_draft_mark(title: str, mark: str, mark_pattern: str) -> str:
    return f"{mark}{strip_draft_marks(title, mark_pattern)}"


def truncate_title(title: str) -> str:
    return truncate(to_single_line(title), MAX_TITLE_CHARS)


def wrap_in_markers(title: str, body: str) -> str:
    """Wraps our text in markers, so that updates keep text that people add around it.

    The first marker contains a fingerprint of the title, to detect when a person changes it.
    """
    body = MARKER_START_PATTERN.sub("<!- -", body).strip()
    if len(body) > MAX_BODY_CHARS:
        body = _close_details(body[: MAX_BODY_CHARS - len(TRUNCATION_NOTE) - len(DETAILS_END)])
    return f"<!-- copydesk:begin title={_fingerprint(title)} -->\n{body}\n{END_MARKER}"


def replace_marked_part(body: str, marked_part: str) -> str:
    """Replaces our part of the text, or appends it if a person removed it.

    Shortens our part if the whole would be too long for a forge. If people's text leaves no room, returns the old text.
    """
    replaced = _replace_marked_part(body, marked_part)
    excess_chars = len(replaced) - MAX_FORGE_BODY_CHARS
    if excess_chars <= 0:
        return replaced
    begin, content = marked_part.split("\n", 1)
    kept_chars = len(content) - len(END_MARKER) - excess_chars - len(TRUNCATION_NOTE) - len(DETAILS_END) - 1
    if kept_chars < 0:
        return body
    return _replace_marked_part(body, f"{begin}\n{_close_details(content[:kept_chars])}\n{END_MARKER}")


def _close_details(text: str) -> str:
    """Ends a truncated text with a note, after closing a section that was cut in the middle."""
    return text + (DETAILS_END if text.count("<details>") > text.count("</details>") else "") + TRUNCATION_NOTE


def _replace_marked_part(body: str, marked_part: str) -> str:
    begin = BEGIN_MARKER_PATTERN.search(body)
    end = body.find(END_MARKER, begin.end()) if begin else -1
    if begin is None or end < 0:
        return f"{body.rstrip()}\n\n{marked_part}" if body.strip() else marked_part
    return body[: begin.start()] + marked_part + body[end + len(END_MARKER) :]


def is_our_title(title: str, body: str) -> bool:
    """Returns whether the title is the one that we wrote last; False when a person has changed it."""
    begin = BEGIN_MARKER_PATTERN.search(body)
    return begin is not None and begin["title"] == _fingerprint(title)


def mark_comment(text: str) -> str:
    """Adds a hidden marker to a comment that we post.

    Webhooks skip marked comments; the account that posts them may be a person's.
    """
    return f"{text}\n\n{COMMENT_MARKER}"


def parse_pull_number(link: str) -> int | None:
    """Returns the pull request's number, with which its URL ends on every forge; None if there is none."""
    match = re.search(r"/([0-9]{1,9})$", link)
    return int(match[1]) if match else None


def _fingerprint(title: str) -> str:
    return hashlib.sha256(title.strip().encode()).hexdigest()[:16]
