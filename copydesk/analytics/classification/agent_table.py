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

from copydesk.analytics.page_view import VisitorClass

WORD_PATTERN = re.compile(r"[\w-]+")


class TokenMatch(StrEnum):
    """Where a token counts. The narrower ones are for words that people's browsers and devices use as well."""

    WORD = "word"
    PRODUCT = "product"
    START = "start"
    ELECTRON = "electron"


@dataclass(frozen=True, slots=True)
class AgentEntry:
    token: str
    agent: str
    operator: str
    kind: VisitorClass
    source: str
    seen: str
    """Where the claim was read: rarely the source itself, mostly a list that cites it."""
    date: date
    match: TokenMatch = TokenMatch.WORD
    library: bool = False
    """A tool in anybody's hands: what it asks for says more than its name."""


@dataclass(frozen=True, slots=True)
class AcceptRule:
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
    kind: VisitorClass
    source: str
    seen: str
    date: date
    keys: tuple[str, ...]
    """Ed25519 public keys, base64url, as in the `x` of a JWK."""


class AgentTable:
    def __init__(self, text: str) -> None:
        data = tomllib.loads(text)
        self.version: str = data["version"]
        self.entries = tuple(row for group in data["agents"] for row in _expand_group(group))
        self.accept_rules = tuple(AcceptRule(**rule) for rule in data["accepts"])
        self.signers = tuple(_parse_signer(signer) for signer in data["signers"])
        self._entries_by_word: dict[str, list[tuple[int, str, AgentEntry]]] = {}
        for position, row in enumerate(self.entries):
            first_word = WORD_PATTERN.match(row.token)
            assert first_word, f"{row.token!r} must begin with a letter or digit"
            self._entries_by_word.setdefault(first_word[0].lower(), []).append((position, row.token.lower(), row))

    def find(self, user_agent: str) -> AgentEntry | None:
        """The first row of the table whose token stands in the string as a word of its own."""
        text, best, best_position = user_agent.lower(), None, len(self.entries)
        for word in WORD_PATTERN.finditer(text):
            for position, token, entry in self._entries_by_word.get(word[0], ()):
                if position < best_position and _token_matches(text, token, word.start(), entry.match):
                    best, best_position = entry, position
        return best


@cache
def load_agent_table() -> AgentTable:
    """The table that Copydesk ships with."""
    return AgentTable(files("copydesk.analytics.classification").joinpath("agents.toml").read_text("utf-8"))


def _token_matches(text: str, token: str, start: int, match: TokenMatch) -> bool:
    end = start + len(token)
    if not text.startswith(token, start) or WORD_PATTERN.match(text, end):
        return False
    if match is TokenMatch.PRODUCT:
        return text.startswith("/", end)
    if match is TokenMatch.START:
        return start == 0
    return match is TokenMatch.WORD or (text.startswith("/", end) and "electron/" in text)


def _expand_group(group: Mapping[str, Any]) -> Iterator[AgentEntry]:
    """A group is rows that share everything but the token; an agent is called by its token unless it has a name."""
    for token in group["tokens"]:
        yield AgentEntry(
            token,
            group.get("agent", token),
            group["operator"],
            VisitorClass(group["class"]),
            group["source"],
            group["seen"],
            group["date"],
            TokenMatch(group.get("match", "word")),
            group.get("library", False),
        )


def _parse_signer(data: Mapping[str, Any]) -> Signer:
    return Signer(
        data["host"],
        data["agent"],
        data["operator"],
        VisitorClass(data["class"]),
        data["source"],
        data["seen"],
        data["date"],
        tuple(data["keys"]),
    )
