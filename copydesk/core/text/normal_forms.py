"""Unicode's normal forms, in time that grows with the text."""

import re
import unicodedata
from typing import Literal

LONG_COMBINING_RUN_PATTERN = re.compile(rb"[^\0]{50}")
"""Combining marks in a row, by their classes. Unicode's own format for streams allows 30."""


def normalize(form: Literal["NFC", "NFKD"], text: str) -> str:
    """Returns the text in a normal form; a text with a long run of combining marks comes back as it is.

    Python sorts the marks of a run in a time that grows with the square of their number."""
    if text.isascii() or LONG_COMBINING_RUN_PATTERN.search(bytes(map(unicodedata.combining, text))):
        return text
    return unicodedata.normalize(form, text)
