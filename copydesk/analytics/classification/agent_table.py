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

WORD_PATTERN, WORD_PART_PATTERN = re.compile(r"[\w-]+"), re.compile(r"\w+")


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


@dataclass(frozen=True, slots=True)
class SignerDomain:
    """A domain that a `Signature-Agent` header names. Without keys, the header is a claim, not a proof."""

    domain: str
    agent: str
    operator: str
    kind: VisitorClass
    source: str
    seen: str
    date: date


class AgentTable:
    def __init__(self, text: str) -> None:
        data = tomllib.loads(text)
        self.version: str = data["version"]
        self.entries = tuple(row for group in data["agents"] for row in _expand_group(group))
        self.accept_rules = tuple(AcceptRule(**rule) for rule in data["accepts"])
        self.signers = tuple(_parse_signer(signer) for signer in data["signers"])
        self.signer_domains = tuple(_parse_signer_domain(domain) for domain in data["signer_domains"])
        self._entries_by_word = {pattern: self._index(pattern) for pattern in (WORD_PATTERN, WORD_PART_PATTERN)}

    def _index(self, word_pattern: re.Pattern[str]) -> dict[str, list[tuple[int, str, AgentEntry]]]:
        """Returns the entries with their positions, by the first words of their tokens."""
        index: dict[str, list[tuple[int, str, AgentEntry]]] = {}
        for position, row in enumerate(self.entries):
            first_word = word_pattern.match(row.token)
            assert first_word, f"{row.token!r} must begin with a letter or digit"
            index.setdefault(first_word[0].lower(), []).append((position, row.token.lower(), row))
        return index

    def find(self, user_agent: str) -> AgentEntry | None:
        """Returns the first entry of the table whose token occurs in the user agent as a separate word.

        If there is none, a hyphen counts as a word boundary too: `Agent-NovaAct/0.9` contains the token NovaAct.
        """
        text = user_agent.lower()
        entry = self._find(text, WORD_PATTERN)
        return self._find(text, WORD_PART_PATTERN) if entry is None and "-" in text else entry

    def _find(self, text: str, word_pattern: re.Pattern[str]) -> AgentEntry | None:
        best = None
        best_position = len(self.entries)
        for word in word_pattern.finditer(text):
            for position, token, entry in self._entries_by_word[word_pattern].get(word[0], ()):
                if position < best_position and _token_matches(text, token, word.start(), entry.match, word_pattern):
                    best = entry
                    best_position = position
        return best

    def find_token(self, token: str) -> AgentEntry | None:
        return next((entry for entry in self.entries if entry.token.lower() == token.lower()), None)

    def find_agent(self, agent: str, operator: str) -> AgentEntry | None:
        return next((entry for entry in self.entries if (entry.agent, entry.operator) == (agent, operator)), None)

    def find_signer_domain(self, host: str) -> SignerDomain | None:
        """Returns the longest domain of the table that the host is or is below."""
        matches = [known for known in self.signer_domains if f".{host}".endswith(f".{known.domain}")]
        return max(matches, key=lambda known: len(known.domain), default=None)


@cache
def load_agent_table() -> AgentTable:
    """Returns the table that Copydesk ships with."""
    return AgentTable(files("copydesk.analytics.classification").joinpath("agents.toml").read_text("utf-8"))


def _token_matches(text: str, token: str, start: int, match: TokenMatch, word_pattern: re.Pattern[str]) -> bool:
    end = start + len(token)
    if not text.startswith(token, start) or word_pattern.match(text, end):
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


def _parse_signer_domain(data: Mapping[str, Any]) -> SignerDomain:
    return SignerDomain(
        **{**{key: value for key, value in data.items() if key != "class"}, "kind": VisitorClass(data["class"])}
    )
