"""Titles, texts and comments as the forges keep them: whose words are whose. No input or output."""

import hashlib
import re

LONGEST_TITLE = 240
LONGEST_BODY = 60_000
CUT = "\n\n… (cut: the text was longer than the forge takes)\n"
FOLD_END = "\n\n</details>"
BEGIN = re.compile(r"<!-- copydesk:begin(?: title=(?P<title>[0-9a-f]{16}))? -->")
END = "<!-- copydesk:end -->"
SAID = "<!-- copydesk:said -->"
MARKER = re.compile(r"<!--(?=\s*copydesk:)")


def plain_title(title: str, marks: str) -> str:
    """Without the forge's marks of a draft, however many stand before it."""
    return re.sub(rf"^\s*(?:{marks}\s*)+", "", title, flags=re.IGNORECASE) or title


def with_mark(title: str, mark: str, marks: str) -> str:
    return f"{mark}{plain_title(title, marks)}"


def short_title(title: str) -> str:
    title = " ".join(title.split())
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"


def marked(title: str, body: str) -> str:
    """Our words between markers, so that a person's words around them survive; the title by a fingerprint."""
    body = MARKER.sub("<!- -", body).strip()
    if len(body) > LONGEST_BODY:
        body = body[: LONGEST_BODY - len(CUT) - len(FOLD_END)]
        body += (FOLD_END if body.count("<details>") > body.count("</details>") else "") + CUT
    return f"<!-- copydesk:begin title={_fingerprint(title)} -->\n{body}\n{END}"


def merged_text(old: str, new: str) -> str:
    """The text as it is, with our part replaced; where a person removed that part, it is added at the end."""
    begin = BEGIN.search(old)
    end = old.find(END, begin.end()) if begin else -1
    if begin is None or end < 0:
        return f"{old.rstrip()}\n\n{new}" if old.strip() else new
    return old[: begin.start()] + new + old[end + len(END) :]


def is_our_title(title: str, body: str) -> bool:
    """Whether the title is the one that we wrote last, and not a person's."""
    begin = BEGIN.search(body)
    return begin is not None and begin["title"] == _fingerprint(title)


def marked_comment(text: str) -> str:
    """So that a comment of ours is never taken for a person's, whoever's token wrote it."""
    return f"{text}\n\n{SAID}"


def number_of(link: str) -> int | None:
    """The pull request's number in its address, which ends with it on every forge."""
    found = re.search(r"/([0-9]{1,9})$", link)
    return int(found[1]) if found else None


def _fingerprint(title: str) -> str:
    return hashlib.sha256(title.strip().encode()).hexdigest()[:16]
