"""Characters that make a text say something else than it shows: hidden ones, and letters that only look Latin.

A character that shows nothing is let through only beside the writing that needs it: a joiner beside letters that are
not Latin or between pictures, a variation selector right after a symbol, ideograph or letter that has variants, a
filler beside Korean or Mongolian letters, an empty Braille cell in a line of Braille.
"""

import re
import unicodedata
from collections.abc import Iterator

from copydesk.jobs.publish.guard.added_lines import ProposedFile
from copydesk.jobs.workspace.text_edits import CONTROL_CHARACTER_PATTERN, find_new_control_character

BIDI_CONTROL_PATTERN = re.compile("[\u202a-\u202e\u2066-\u206f]")
"""They reorder what is read, or once did: Trojan Source."""
HIDDEN_PATTERN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)
JOINERS = "\u034f\u061c\u17b4\u17b5\u200b\u200c\u200d\u200e\u200f\ufeff"
"""Scripts other than Latin need these between letters, and pictures are joined with them."""
BLACK_FLAG = "\U0001f3f4"
KEYCAP_PATTERN = re.compile("[#*0-9]\ufe0f\u20e3")
VARIATION_SELECTOR_PATTERN = re.compile("[\ufe00-\ufe0f]")
BRAILLE_BLANK = "\u2800"
BRAILLE_PATTERN = re.compile("[\u2801-\u28ff]")
SCRIPT_BY_FILLER = {
    "\u115f": "HANGUL", "\u1160": "HANGUL", "\u3164": "HANGUL", "\uffa0": "HANGUL",
    **dict.fromkeys("\u180b\u180c\u180d\u180e\u180f", "MONGOLIAN"),
}  # fmt: skip
"""The writing that a filler or selector belongs to, by the names of its letters."""
LETTER_WITH_VARIANTS = "\u2139"
"""The sign for information, which counts as a letter."""
CATEGORIES_WITH_VARIANTS = {"So", "Sm", "Sk", "Po", "Pd", "Lo", "Nl", "No"}
"""Kinds of characters that have variants: pictures, symbols, ideographs, letters of some scripts."""
WORD_PATTERN = re.compile(r"[^\W\d_]{3,}")
LOOKALIKES = frozenset("асеһіјорѕхуԁԛԝАВСЕНІЈКМОРЅТХ")
"""Cyrillic letters that are drawn like Latin ones."""


def find_hidden_character(file: ProposedFile) -> tuple[int, str] | None:
    """The first added line with such a character, and what it is."""
    if file.body.isascii() and not CONTROL_CHARACTER_PATTERN.search(file.body):
        return None
    new_control = find_new_control_character(file.before.body, file.body)
    for number, line in file.added_lines():
        if new_control is not None and new_control in line:
            return number, f"the control character U+{ord(new_control):04X}"
        for description, context in _find_in_line(line):
            if context not in file.before.body:
                return number, description
    return None


def find_hidden_in_name(path: str) -> str | None:
    """Returns what is hidden in the name of a file, or None."""
    if control := CONTROL_CHARACTER_PATTERN.search(path):
        return f"the control character U+{ord(control.group()):04X}"
    return next((description for description, _ in _find_in_line(path)), None)


def strip_hidden_characters(text: str) -> str:
    """The text without such characters, where what is said matters and not its bytes."""
    if text.isascii():
        return text
    return "".join(
        c
        for n, c in enumerate(text)
        if not BIDI_CONTROL_PATTERN.match(c) and (not HIDDEN_PATTERN.match(c) or _is_legitimate(text, n))
    )


def _find_in_line(line: str) -> Iterator[tuple[str, str]]:
    """What is there, and the text around it that tells whether it was there before."""
    if line.isascii():
        return
    for match in (*BIDI_CONTROL_PATTERN.finditer(line), *HIDDEN_PATTERN.finditer(line)):
        character = match.group()
        if BIDI_CONTROL_PATTERN.match(character) or not _is_legitimate(line, match.start()):
            yield f"the invisible character U+{ord(character):04X}", _surrounding_text(line, match)
    for match in WORD_PATTERN.finditer(line):
        word = match.group()
        foreign = {c for c in word if "CYRILLIC" in unicodedata.name(c, "")}
        if foreign and foreign <= LOOKALIKES and any(c.isascii() for c in word):
            yield "a word in which Cyrillic letters pass for Latin ones", word


def _surrounding_text(line: str, match: re.Match[str]) -> str:
    return line[max(0, match.start() - 8) : match.end() + 8]


def _is_legitimate(line: str, position: int) -> bool:
    """Whether the hidden character stands beside what it serves; tags only in the flags that are made with them."""
    character = line[position]
    before, after = line[position - 1 : position] if position else "", line[position + 1 : position + 2]
    if character in JOINERS:
        neighbors = (before, after)
        return any(_is_non_latin(c) for c in neighbors if c)
    if VARIATION_SELECTOR_PATTERN.match(character):
        return _has_variants(before) or KEYCAP_PATTERN.match(line, max(0, position - 1)) is not None
    if script := SCRIPT_BY_FILLER.get(character):
        return any(script in unicodedata.name(c, "") and c not in SCRIPT_BY_FILLER for c in (before, after) if c)
    if character == BRAILLE_BLANK:
        letters = [c for c in line if not c.isspace() and c != BRAILLE_BLANK]
        return 2 * len(BRAILLE_PATTERN.findall(line)) > len(letters)
    return "\U000e0020" <= character <= "\U000e007f" and BLACK_FLAG in line[max(0, position - 8) : position]


def _is_non_latin(character: str) -> bool:
    """A character that is neither hidden nor of the Latin script; a selector counts with the picture before it."""
    is_hidden = HIDDEN_PATTERN.match(character) is not None and not VARIATION_SELECTOR_PATTERN.match(character)
    return not character.isascii() and not is_hidden and "LATIN" not in unicodedata.name(character, "")


def _has_variants(character: str) -> bool:
    is_visible = bool(character) and not character.isascii() and HIDDEN_PATTERN.match(character) is None
    has_variants = (
        character == LETTER_WITH_VARIANTS or unicodedata.category(character or " ") in CATEGORIES_WITH_VARIANTS
    )
    return is_visible and has_variants
