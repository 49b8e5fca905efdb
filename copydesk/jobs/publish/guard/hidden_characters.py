"""Finds characters that deceive readers: hidden ones, and Cyrillic and Greek letters that look Latin.

An invisible character is allowed only next to the script that needs it: a joiner next to non-Latin letters or between
emoji, a variation selector right after a symbol, ideograph or letter that has variants, a filler next to Korean or
Mongolian letters, an empty Braille cell in a line of Braille, a tag in the flag of England, Scotland or Wales.
"""

import re
import unicodedata
from collections.abc import Iterator

from copydesk.jobs.publish.guard.added_lines import ProposedFile
from copydesk.jobs.workspace.text_edits import CONTROL_CHARACTER_PATTERN, find_new_control_character

BIDI_CONTROL_PATTERN = re.compile("[\u202a-\u202e\u2066-\u206f]")
"""Characters that reorder the displayed text (the Trojan Source attack)."""
HIDDEN_PATTERN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)
JOINERS = "\u034f\u061c\u17b4\u17b5\u200b\u200c\u200d\u200e\u200f\ufeff"
"""Non-Latin scripts need these between letters; some also join emoji."""
SUBDIVISION_FLAGS = ("gbeng", "gbsct", "gbwls")
"""The codes of the only flags that Unicode recommends to write with tag characters."""
FLAG_TAGS = ("".join(chr(0xE0000 + ord(letter)) for letter in code) for code in SUBDIVISION_FLAGS)
FLAG_PATTERN = re.compile(f"\U0001f3f4(?:{'|'.join(FLAG_TAGS)})\U000e007f")
FLAG_CHARS = 7
KEYCAP_PATTERN = re.compile("[#*0-9]\ufe0f\u20e3")
VARIATION_SELECTOR_PATTERN = re.compile("[\ufe00-\ufe0f]")
BRAILLE_BLANK = "\u2800"
BRAILLE_PATTERN = re.compile("[\u2801-\u28ff]")
SCRIPT_BY_FILLER = {
    "\u115f": "HANGUL", "\u1160": "HANGUL", "\u3164": "HANGUL", "\uffa0": "HANGUL",
    **dict.fromkeys("\u180b\u180c\u180d\u180e\u180f", "MONGOLIAN"),
}  # fmt: skip
"""The script of each filler and selector, as it occurs in the Unicode names of its letters."""
LETTER_WITH_VARIANTS = "\u2139"
"""The information sign, which Unicode classifies as a letter."""
CATEGORIES_WITH_VARIANTS = {"So", "Sm", "Sk", "Po", "Pd", "Lo", "Nl", "No"}
"""Unicode categories with variants: emoji, symbols, ideographs, letters of some scripts."""
WORD_PATTERN = re.compile(r"[^\W\d_]{3,}")
CYRILLIC_LOOKALIKES = frozenset("асеһіјорѕхуԁԛԝАВСЕНІЈКМОРЅТХ")
GREEK_LOOKALIKES = frozenset("αγιϳνορϱσυϲΑΒΕΖΗΙͿΚΜΝΟΡΤΥΧϹϺϜ")
"""The letters that Unicode's list of confusable characters maps to Latin letters."""
LOOKALIKES = CYRILLIC_LOOKALIKES | GREEK_LOOKALIKES
GREEK_SYMBOL_PATTERN = re.compile(r"(?<=\A[A-Z]{2})[A-Z]*[α-ω]\Z")
"""A Greek letter as a symbol at the end of an abbreviation, as in TNFα."""


def find_hidden_character(file: ProposedFile) -> tuple[int, str] | None:
    """Returns the number of the first added line with a deceptive character and a description of it, or None."""
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
    """Returns a description of the first deceptive character in a file's name, or None."""
    if control := CONTROL_CHARACTER_PATTERN.search(path):
        return f"the control character U+{ord(control.group()):04X}"
    return next((description for description, _ in _find_in_line(path)), None)


def strip_hidden_characters(text: str) -> str:
    """Removes hidden and reordering characters from titles and messages, where only the visible text matters."""
    if text.isascii():
        return text
    return "".join(
        c
        for n, c in enumerate(text)
        if not BIDI_CONTROL_PATTERN.match(c) and (not HIDDEN_PATTERN.match(c) or _is_legitimate(text, n))
    )


def _find_in_line(line: str) -> Iterator[tuple[str, str]]:
    """Yields a description of each deceptive character, and the text around it.

    Callers search the old text for the surrounding text, to find out whether the character is new.
    """
    if line.isascii():
        return
    for match in (*BIDI_CONTROL_PATTERN.finditer(line), *HIDDEN_PATTERN.finditer(line)):
        character = match.group()
        if BIDI_CONTROL_PATTERN.match(character) or not _is_legitimate(line, match.start()):
            yield f"the invisible character U+{ord(character):04X}", _surrounding_text(line, match)
    for match in WORD_PATTERN.finditer(line):
        if script := _find_imitating_script(match.group()):
            yield f"a word that mixes Latin letters with similar {script} ones", match.group()


def _find_imitating_script(word: str) -> str | None:
    """Returns the script of the first letter that looks Latin, in a word that is not written in that script alone."""
    if GREEK_SYMBOL_PATTERN.search(word):
        return None
    foreign = {c for c in word if unicodedata.name(c, "").startswith(("CYRILLIC ", "GREEK "))}
    is_mixed = any(c.isascii() for c in word) or (
        bool(foreign & GREEK_LOOKALIKES) and bool(foreign & CYRILLIC_LOOKALIKES)
    )
    if not foreign or not is_mixed or not foreign <= LOOKALIKES:
        return None
    return "Greek" if foreign <= GREEK_LOOKALIKES else "Cyrillic"


def _surrounding_text(line: str, match: re.Match[str]) -> str:
    return line[max(0, match.start() - 8) : match.end() + 8]


def _is_legitimate(line: str, position: int) -> bool:
    """Returns whether the hidden character is next to one that needs it. Tags are allowed only in flag emoji."""
    character = line[position]
    before = line[position - 1 : position] if position else ""
    after = line[position + 1 : position + 2]
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
    around = FLAG_PATTERN.finditer(line, max(0, position - FLAG_CHARS), position + FLAG_CHARS)
    return any(flag.start() < position < flag.end() for flag in around)


def _is_non_latin(character: str) -> bool:
    """Returns whether a character is neither Latin nor hidden. Variation selectors count as part of an emoji."""
    is_hidden = HIDDEN_PATTERN.match(character) is not None and not VARIATION_SELECTOR_PATTERN.match(character)
    return not character.isascii() and not is_hidden and "LATIN" not in unicodedata.name(character, "")


def _has_variants(character: str) -> bool:
    is_visible = bool(character) and not character.isascii() and HIDDEN_PATTERN.match(character) is None
    has_variants = (
        character == LETTER_WITH_VARIANTS or unicodedata.category(character or " ") in CATEGORIES_WITH_VARIANTS
    )
    return is_visible and has_variants
