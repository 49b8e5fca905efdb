"""What a scripted model answers, and the ways in which an answer can go wrong, whatever the wire format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Said:
    """An answer of the model: a text, tool calls, or both. Arguments given as a string go out as they are."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    input_tokens: int = 100
    """All of them: those read from a cache and those written to one included."""
    output_tokens: int = 20
    finish_reason: str = ""
    """As the provider spells it; the usual one when empty."""
    thinking: str = ""
    """A thought, with a signature or its like that the provider wants back."""
    cached: int = 0
    written: int = 0
    refusal: str = ""

    @property
    def signature(self) -> str:
        return f"sealed-{self.thinking}"


@dataclass(frozen=True)
class Failed:
    """An error in the provider's own form."""

    status: int
    message: str
    headers: tuple[tuple[str, str], ...] = ()
    code: str | None = None


@dataclass(frozen=True)
class Sent:
    """An answer given byte for byte."""

    status: int
    body: str


@dataclass(frozen=True)
class Hung:
    """Silence, and then an answer, or a closed connection when there is none."""

    seconds: float
    then: "Answer | None" = None


@dataclass(frozen=True)
class Streamed:
    """An answer whose stream does not go as it should."""

    said: Said
    cut: float = 1.0
    """The share of it that comes before the connection ends."""
    politely: bool = False
    """The connection ends as if that were all."""
    stall: float = 0.0
    """Seconds of silence where it is cut; then the rest follows."""
    pace: float = 0.0
    """Seconds between events."""
    garbled: bool = False
    """An event in the middle is no JSON."""


Answer = Said | Failed | Sent | Hung | Streamed
Turn = Answer | Sequence[Answer]
"""A sequence answers repeated tries of one turn, its last answer for all further ones: [hang(30), say("…")]."""


def say(text: str, **more: Any) -> Said:
    return Said(text, **more)


def call(name: str, arguments: dict[str, Any] | str, *, text: str = "", **more: Any) -> Said:
    return Said(text, ((name, arguments if isinstance(arguments, str) else json.dumps(arguments)),), **more)


def together(*answers: Said) -> Said:
    """Several tool calls in one answer."""
    return replace(answers[0], calls=tuple(one for answer in answers for one in answer.calls))


def fail(
    status: int,
    message: str = "The script says so.",
    *,
    retry_after: float | str | None = None,
    code: str | None = None,
) -> Failed:
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Failed(status, message, headers, code)


def send(body: str, *, status: int = 200) -> Sent:
    return Sent(status, body)


def hang(seconds: float, then: Answer | None = None) -> Hung:
    return Hung(seconds, then)


def drop() -> Hung:
    """Closes the connection without a word."""
    return Hung(0)


def cut(said: Said, at: float = 0.5, *, politely: bool = False) -> Streamed:
    """Breaks the stream off in the middle."""
    return Streamed(said, cut=at, politely=politely)


def stall(said: Said, seconds: float, at: float = 0.5) -> Streamed:
    return Streamed(said, cut=at, stall=seconds)


def slowly(said: Said, pace: float) -> Streamed:
    return Streamed(said, pace=pace)


def garbled(said: Said) -> Streamed:
    return Streamed(said, garbled=True)
