"""Unicode normalization in linear time."""

import re
import unicodedata
from typing import Literal

LONG_COMBINING_RUN_PATTERN = re.compile(rb"[^\0]{50}")
"""Matches a long run of combining marks by their classes (0 means no mark). Unicode's stream-safe format allows 30."""


def normalize(form: Literal["NFC", "NFKD"], text: str) -> str:
    """Returns the text in a normal form, or unchanged if it has a long run of combining marks.

    Python sorts the marks of a run in quadratic time."""
    if text.isascii() or LONG_COMBINING_RUN_PATTERN.search(bytes(map(unicodedata.combining, text))):
        return text
    return unicodedata.normalize(form, text)
