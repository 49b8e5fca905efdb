"""Shortens text."""


def truncate(text: str, max_chars: int) -> str:
    """Returns at most this many characters of the text. An ellipsis shows that some are missing."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def to_single_line(text: str) -> str:
    """Returns the words of the text on one line, with one space between them."""
    return " ".join(text.split())
