"""Characters that make a text say something else than it shows: hidden ones, and letters that only look Latin."""

import re
import unicodedata
from collections.abc import Iterator

from copydesk.jobs.publish.additions import Addition

STEERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""They reorder what is read: Trojan Source."""
HIDDEN = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff\U000e0000-\U000e01ef]")
JOINING = "\u200b\u200c\u200d\u200e\u200f\u061c\ufeff"
"""Scripts other than Latin need these between letters, and pictures are joined with them."""
FLAG = "\U0001f3f4"
WORD = re.compile(r"[^\W\d_]{3,}")
LOOKALIKES = frozenset("асеһіјорѕхуԁԛԝАВСЕНІЈКМОРЅТХ")
"""Cyrillic letters that are drawn like Latin ones."""


def find_unseen(addition: Addition) -> tuple[int, str] | None:
    """The first added line with such a character, and what it is."""
    if addition.body.isascii():
        return None
    for number, line in addition.lines():
        for what, where in _in_line(line):
            if where not in addition.before.body:
                return number, what
    return None


def shown(text: str) -> str:
    """The text without such characters, where what is said matters and not its bytes."""
    if text.isascii():
        return text
    return "".join(
        c for n, c in enumerate(text) if not STEERING.match(c) and (not HIDDEN.match(c) or _is_at_home(text, n))
    )


def _in_line(line: str) -> Iterator[tuple[str, str]]:
    """What is there, and the text around it that tells whether it was there before."""
    if line.isascii():
        return
    for match in (*STEERING.finditer(line), *HIDDEN.finditer(line)):
        character, near = match.group(), line[max(0, match.start() - 8) : match.end() + 8]
        if STEERING.match(character) or not _is_at_home(line, match.start()):
            yield f"the invisible character U+{ord(character):04X}", near
    for match in WORD.finditer(line):
        word = match.group()
        foreign = {c for c in word if "CYRILLIC" in unicodedata.name(c, "")}
        if foreign and foreign <= LOOKALIKES and any(c.isascii() for c in word):
            yield "a word in which Cyrillic letters pass for Latin ones", word


def _is_at_home(line: str, position: int) -> bool:
    """Next to a letter or a picture that is not Latin; tags only in the flags of countries that are made with them."""
    character = line[position]
    if character in JOINING:
        around = line[position - 1 : position] + line[position + 1 : position + 2]
        return any(not c.isascii() and not HIDDEN.match(c) and "LATIN" not in unicodedata.name(c, "") for c in around)
    return "\U000e0020" <= character <= "\U000e007f" and FLAG in line[max(0, position - 8) : position]
