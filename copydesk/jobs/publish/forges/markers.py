"""Titles, texts and comments as the forges keep them: whose words are whose. No input or output."""

import hashlib
import re

MAX_TITLE_CHARS = 240
MAX_BODY_CHARS = 60_000
TRUNCATION_NOTE = "\n\n… (cut: the text was longer than the forge takes)\n"
DETAILS_END = "\n\n</details>"
BEGIN_MARKER_PATTERN = re.compile(r"<!-- copydesk:begin(?: title=(?P<title>[0-9a-f]{16}))? -->")
END_MARKER = "<!-- copydesk:end -->"
COMMENT_MARKER = "<!-- copydesk:said -->"
MARKER_START_PATTERN = re.compile(r"<!--(?=\s*copydesk:)")


def strip_draft_marks(title: str, mark_pattern: str) -> str:
    """Without the forge's marks of a draft, however many stand before it."""
    return re.sub(rf"^\s*(?:{mark_pattern}\s*)+", "", title, flags=re.IGNORECASE) or title


def set_draft_mark(title: str, mark: str, mark_pattern: str) -> str:
    return f"{mark}{strip_draft_marks(title, mark_pattern)}"


def truncate_title(title: str) -> str:
    title = " ".join(title.split())
    return title if len(title) <= MAX_TITLE_CHARS else title[: MAX_TITLE_CHARS - 1] + "…"


def wrap_in_markers(title: str, body: str) -> str:
    """Our words between markers, so that a person's words around them survive; the title by a fingerprint."""
    body = MARKER_START_PATTERN.sub("<!- -", body).strip()
    if len(body) > MAX_BODY_CHARS:
        body = body[: MAX_BODY_CHARS - len(TRUNCATION_NOTE) - len(DETAILS_END)]
        body += (DETAILS_END if body.count("<details>") > body.count("</details>") else "") + TRUNCATION_NOTE
    return f"<!-- copydesk:begin title={_fingerprint(title)} -->\n{body}\n{END_MARKER}"


def replace_marked_part(body: str, marked_part: str) -> str:
    """The text as it is, with our part replaced; where a person removed that part, it is added at the end."""
    begin = BEGIN_MARKER_PATTERN.search(body)
    end = body.find(END_MARKER, begin.end()) if begin else -1
    if begin is None or end < 0:
        return f"{body.rstrip()}\n\n{marked_part}" if body.strip() else marked_part
    return body[: begin.start()] + marked_part + body[end + len(END_MARKER) :]


def is_our_title(title: str, body: str) -> bool:
    """Whether the title is the one that we wrote last, and not a person's."""
    begin = BEGIN_MARKER_PATTERN.search(body)
    return begin is not None and begin["title"] == _fingerprint(title)


def mark_comment(text: str) -> str:
    """So that a comment of ours is never taken for a person's, whoever's token wrote it."""
    return f"{text}\n\n{COMMENT_MARKER}"


def parse_pull_number(link: str) -> int | None:
    """The pull request's number in its address, which ends with it on every forge."""
    match = re.search(r"/([0-9]{1,9})$", link)
    return int(match[1]) if match else None


def _fingerprint(title: str) -> str:
    return hashlib.sha256(title.strip().encode()).hexdigest()[:16]
