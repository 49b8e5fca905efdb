"""Text that readers typed: removes characters that do not belong there, and limits its length."""

import unicodedata

from copydesk.analytics.page_paths import MAX_PATH_BYTES
from copydesk.core.errors import ErrorDetail, InvalidRequest


def clean_text(text: str) -> str:
    """Removes control characters, except line breaks and tabs, and lone surrogates."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()


def clean_line(text: str) -> str:
    """Cleans a text and joins its words to one line."""
    return " ".join(clean_text(text).split())


def clean_optional(text: str | None, field: str, max_chars: int) -> str | None:
    """Returns the cleaned text, or None if it is empty. Raises InvalidRequest if it is too long."""
    cleaned = clean_text(text or "")
    if len(cleaned) > max_chars:
        raise invalid_field(field, f"A {field} can have at most {max_chars:,} characters.")
    return cleaned or None


def validate_path(path: str) -> str:
    cleaned = clean_text(path).replace("\n", "").replace("\t", "")
    if not cleaned.startswith("/") or len(cleaned.encode()) > MAX_PATH_BYTES:
        raise invalid_field("path", f"A path must start with / and have at most {MAX_PATH_BYTES:,} bytes.")
    return cleaned


def invalid_field(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, details=[ErrorDetail(field, message)])
