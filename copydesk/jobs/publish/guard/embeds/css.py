"""Finds content that a style sheet or a style attribute loads."""

import re
from collections.abc import Iterator

from copydesk.jobs.publish.guard.embeds.urls import Embed, EmbedKind, find_host, find_urls, runs_code, shorten

ESCAPE_PATTERN = re.compile(r"\\(?:([0-9a-f]{1,6})[ \t\n\r\f]?|\r?\n|([^\n]))", re.I)
URL_ARGUMENT_PATTERN = re.compile(r"\b(?:url|src|image)\(\s*([^()\"']*)", re.I)
STRING_PATTERN = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'")
IMPORT_PATTERN = re.compile(r"@import\b", re.I)
SCRIPT_PATTERN = re.compile(r"\bexpression\s*\(|-moz-binding|\bbehavior\s*:", re.I)


def find_in_css(text: str) -> Iterator[Embed]:
    """Yields the embeds of the text, read as it is, without comments, and with escapes decoded."""
    kind: EmbedKind = "style" if IMPORT_PATTERN.search(text) else "image"
    seen: set[str] = set()
    for variant in dict.fromkeys((text, _remove_comments(text), _unescape(_remove_comments(text)))):
        if SCRIPT_PATTERN.search(variant):
            yield Embed("script", shorten(text))
        for value in _find_values(variant):
            if value in seen:
                continue
            seen.add(value)
            if runs_code(value):
                yield Embed("script", value)
            elif find_host(value):
                yield Embed(kind, value)


def _find_values(text: str) -> Iterator[str]:
    yield from (match[1].strip() for match in URL_ARGUMENT_PATTERN.finditer(text))
    yield from (match[1] or match[2] or "" for match in STRING_PATTERN.finditer(text))
    yield from find_urls(text)


def _unescape(text: str) -> str:
    return ESCAPE_PATTERN.sub(_decode_escape, text) if "\\" in text else text


def _decode_escape(escape: re.Match[str]) -> str:
    if escape[1]:
        code = int(escape[1], 16)
        return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
    return escape[2] or ""


def _remove_comments(text: str) -> str:
    pieces = []
    position = 0
    while (start := text.find("/*", position)) >= 0:
        pieces.append(text[position:start])
        end = text.find("*/", start + 2)
        if end < 0:
            return "".join(pieces)
        position = end + 2
    return "".join(pieces) + text[position:]
