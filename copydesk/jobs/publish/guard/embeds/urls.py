"""Parses URLs as browsers do, and defines the references that a file can contain."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal
from urllib.parse import unquote

EmbedKind = Literal["link", "image", "style", "frame", "data", "redirect", "script"]
Dialect = Literal["", "strict fences", "mdx", "templates"]

# Browsers accept any number of slashes and backslashes, and none after a scheme.
URL_PATTERN = re.compile(
    r"https?:(?:[/\\]+(?:\[[0-9a-f:.]+\]|[^\s\"'<>()\[\]{}|^`])|(?=[\w-]+\.\w))[^\s\"'<>()\[\]{}|^`]*"
    r"|(?:(?<=[\"'(=<\s,])|^)[/\\]{2,}(?:\[[0-9a-f:.]+\]|[\w-]+[.\u3002\uff0e\uff61])[^\s\"'<>()\[\]{}|^`]*",
    re.I,
)
SCHEME_PATTERN = re.compile(r"(?:https?|wss?|ftp):[/\\]*|[/\\]{2,}", re.I)
SCRIPT_SCHEME_PATTERN = re.compile(r"(?:javascript|vbscript|livescript):", re.I)
DATA_SCHEME_PATTERN = re.compile(r"(?:data|blob|filesystem):", re.I)
IGNORED_PATTERN = re.compile(r"[\t\n\r]")
TRIMMED_CHARACTERS = "".join(chr(code) for code in range(33))
TRAILING_PUNCTUATION = ".,;:!?*_"
MAX_CODE_CHARS = 400
MAX_SHOWN_CODE_CHARS = 80
CODE_DIGEST_CHARS = 16
CODE_MARK = " … "
"""Between the beginning of code and its digest."""
TOO_LARGE = "a file that is too large to parse"
TOO_DEEP = "a file that is nested too deeply to parse"
UNREADABLE = "a file that cannot be parsed"
UNPARSED_PLACEHOLDERS = (TOO_LARGE, TOO_DEEP, UNREADABLE)
"""Used in place of a URL when a file could not be parsed, so that its embeds are unknown."""


@dataclass(frozen=True)
class Embed:
    """A reference in a file. A `link` needs a click; all other kinds are loaded or run without one.

    `line` 0 means unknown. `dialect` is the only dialect in which the reference is active; "" means all dialects.
    """

    kind: EmbedKind
    url: str
    line: int = 0
    dialect: Dialect = ""


def clean_address(value: str) -> str:
    """Returns the address without the characters that browsers ignore."""
    return IGNORED_PATTERN.sub("", value).strip(TRIMMED_CHARACTERS)


def find_host(address: str) -> str:
    """Returns the host of an address, or "" for an address within the site."""
    address = clean_address(address)
    scheme = SCHEME_PATTERN.match(address)
    if scheme is None:
        return ""
    authority = re.split(r"[/\\?#]", address[scheme.end() :], maxsplit=1)[0].rpartition("@")[2]
    host = authority[: authority.find("]") + 1] if authority.startswith("[") else authority.partition(":")[0]
    return unicodedata.normalize("NFKC", unquote(host)).replace("\u3002", ".").lower().strip("[].")


def runs_code(address: str) -> bool:
    return SCRIPT_SCHEME_PATTERN.match(clean_address(address)) is not None


def holds_data(address: str) -> bool:
    return DATA_SCHEME_PATTERN.match(clean_address(address)) is not None


def find_urls(text: str) -> Iterator[str]:
    """Yields the URLs in a text, without trailing punctuation."""
    for match in URL_PATTERN.finditer(text):
        yield match.group().rstrip(TRAILING_PUNCTUATION)


def shorten(text: str) -> str:
    """Returns a piece of code as one line; of long code, its beginning and a digest of the whole.

    A reviewer can recognize it, and code that was there before does not excuse other code that begins like it.
    """
    if len(text) <= MAX_CODE_CHARS and len(line := " ".join(text.split())) <= MAX_SHOWN_CODE_CHARS:
        return line
    lines = "\n".join(line.strip() for line in text.strip().splitlines())
    digest = sha256(lines.encode(errors="replace")).hexdigest()[:CODE_DIGEST_CHARS]
    return f"{' '.join(text[:MAX_CODE_CHARS].split())[:MAX_SHOWN_CODE_CHARS]}{CODE_MARK}{digest}"
