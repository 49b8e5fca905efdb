"""The agent table: known agents by a token of their user agent, with source and date of each claim."""

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
    """Where in a user agent a token must occur. The stricter values are for words that browsers and devices use too.

    WORD: as a separate word. PRODUCT: followed by a slash. START: at the start. ELECTRON: followed by a slash, in the
    user agent of an Electron application.
    """

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
    """Where we read the claim: sometimes the source itself, usually a list that cites it."""
    date: date
    match: TokenMatch = TokenMatch.WORD
    library: bool = False
    """True for a general HTTP tool: the request says more about its user than the tool's name."""


@dataclass(frozen=True, slots=True)
class AcceptRule:
    """An Accept header that identifies a client. `sent_by` is the token that the user agent must have; "" means any."""

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
    """Ed25519 public keys in base64url, as in the field `x` of a JWK."""


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
        """Returns the first entry of the table whose token occurs in the user agent as a separate word."""
        text = user_agent.lower()
        best = None
        best_position = len(self.entries)
        for word in WORD_PATTERN.finditer(text):
            for position, token, entry in self._entries_by_word.get(word[0], ()):
                if position < best_position and _token_matches(text, token, word.start(), entry.match):
                    best = entry
                    best_position = position
        return best


@cache
def load_agent_table() -> AgentTable:
    """Returns the table that Copydesk ships with."""
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
    """Yields one entry per token of a group; they share all other fields.

    Without a name, an agent is named by its token.
    """
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
