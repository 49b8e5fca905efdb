"""The table of agents: who calls themselves what, on whose word, as of when."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from copydesk.analytics.page_view import Class

WORD = re.compile(r"[\w-]+")


class Match(StrEnum):
    """Where a token counts. The narrower ones are for words that people's browsers and devices use as well."""

    WORD = "word"
    PRODUCT = "product"
    START = "start"
    ELECTRON = "electron"


@dataclass(frozen=True, slots=True)
class Row:
    token: str
    agent: str
    operator: str
    kind: Class
    source: str
    seen: str
    """Where the claim was read: rarely the source itself, mostly a list that cites it."""
    date: date
    match: Match = Match.WORD
    library: bool = False
    """A tool in anybody's hands: what it asks for says more than its name."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An Accept header by which a client can be named; `sent_by` is the token it goes with, if any."""

    accept: str
    sent_by: str
    agent: str
    operator: str
    source: str
    seen: str
    date: date


@dataclass(frozen=True, slots=True)
class Signer:
    host: str
    agent: str
    operator: str
    kind: Class
    source: str
    seen: str
    date: date
    keys: tuple[str, ...]
    """Ed25519 public keys, base64url, as in the `x` of a JWK."""


class Table:
    def __init__(self, text: str) -> None:
        told = tomllib.loads(text)
        self.version: str = told["version"]
        self.rows = tuple(row for group in told["agents"] for row in _rows(group))
        self.shapes = tuple(Shape(**shape) for shape in told["accepts"])
        self.signers = tuple(_signer(signer) for signer in told["signers"])
        self._by_word: dict[str, list[tuple[int, str, Row]]] = {}
        for place, row in enumerate(self.rows):
            first = WORD.match(row.token)
            assert first, f"{row.token!r} must begin with a letter or digit"
            self._by_word.setdefault(first[0].lower(), []).append((place, row.token.lower(), row))

    def find(self, agent: str) -> Row | None:
        """The first row of the table whose token stands in the string as a word of its own."""
        text, best, place = agent.lower(), None, len(self.rows)
        for word in WORD.finditer(text):
            for nth, token, row in self._by_word.get(word[0], ()):
                if nth < place and _stands(text, token, word.start(), row.match):
                    best, place = row, nth
        return best


@cache
def table() -> Table:
    """The table that Copydesk ships with."""
    return Table(files("copydesk.analytics.classification").joinpath("agents.toml").read_text("utf-8"))


def _stands(text: str, token: str, at: int, match: Match) -> bool:
    end = at + len(token)
    if not text.startswith(token, at) or WORD.match(text, end):
        return False
    if match is Match.PRODUCT:
        return text.startswith("/", end)
    if match is Match.START:
        return at == 0
    return match is Match.WORD or (text.startswith("/", end) and "electron/" in text)


def _rows(group: Mapping[str, Any]) -> Iterator[Row]:
    """A group is rows that share everything but the token; an agent is called by its token unless it has a name."""
    for token in group["tokens"]:
        yield Row(
            token,
            group.get("agent", token),
            group["operator"],
            Class(group["class"]),
            group["source"],
            group["seen"],
            group["date"],
            Match(group.get("match", "word")),
            group.get("library", False),
        )


def _signer(told: Mapping[str, Any]) -> Signer:
    return Signer(
        told["host"],
        told["agent"],
        told["operator"],
        Class(told["class"]),
        told["source"],
        told["seen"],
        told["date"],
        tuple(told["keys"]),
    )
