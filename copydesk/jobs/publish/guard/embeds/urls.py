"""Addresses as browsers read them, and what a file refers to by one."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

EmbedKind = Literal["link", "image", "style", "frame", "script"]
Dialect = Literal["", "strict fences", "mdx", "templates"]

# Any number of slashes of either kind; a scheme needs none.
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
TOO_LARGE = "a file that is too large to be read"
TOO_DEEP = "a file that is nested too deeply to be read"
UNREADABLE = "a file that its parser cannot read"
UNREAD_REASONS = (TOO_LARGE, TOO_DEEP, UNREADABLE)
"""In place of an address: nothing is known of the file, neither now nor as it was."""


@dataclass(frozen=True)
class Embed:
    """A reference of a page: `link` waits for a click, every other kind is loaded or run without one.

    `dialect` names the way of reading a page in which the reference is live; empty means in all of them.
    """

    kind: EmbedKind
    url: str
    line: int = 0
    dialect: Dialect = ""


def clean_address(value: str) -> str:
    """Returns the address without the characters that browsers leave out."""
    return IGNORED_PATTERN.sub("", value).strip(TRIMMED_CHARACTERS)


def find_host(address: str) -> str:
    """Returns the host that an address leads to, or nothing where it leads into the site itself."""
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
    """Yields the addresses that stand in a text, without the punctuation after them."""
    for match in URL_PATTERN.finditer(text):
        yield match.group().rstrip(TRAILING_PUNCTUATION)


def shorten(text: str) -> str:
    """Returns the first words of a piece of code, by which a reviewer recognizes it."""
    return " ".join(text[:400].split())[:80]
