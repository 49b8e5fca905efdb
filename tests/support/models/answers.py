"""Answers of a scripted model, and their faults, independent of the wire format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Said:
    """An answer of the model: a text, tool calls, or both. Arguments given as a string are sent unchanged."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    input_tokens: int = 100
    """All input tokens, including those read from a cache or written to one."""
    output_tokens: int = 20
    finish_reason: str = ""
    """In the provider's spelling; empty means the usual one."""
    thinking: str = ""
    """A thought, with a signature or similar data that the provider expects back."""
    cached: int = 0
    written: int = 0
    refusal: str = ""

    @property
    def signature(self) -> str:
        return f"sealed-{self.thinking}"


@dataclass(frozen=True)
class Failed:
    """An error in the provider's format."""

    status: int
    message: str
    headers: tuple[tuple[str, str], ...] = ()
    code: str | None = None


@dataclass(frozen=True)
class Sent:
    """A response given as bytes."""

    status: int
    body: str


@dataclass(frozen=True)
class Hung:
    """Silence, followed by an answer, or by a closed connection if there is none."""

    seconds: float
    then: "Answer | None" = None


@dataclass(frozen=True)
class Streamed:
    """An answer with a faulty stream."""

    said: Said
    cut: float = 1.0
    """The share that is sent before the connection ends."""
    politely: bool = False
    """Ends the connection as if the stream were complete."""
    stall: float = 0.0
    """Seconds of silence at the cut; then the remaining events follow."""
    pace: float = 0.0
    """Seconds between events."""
    garbled: bool = False
    """Makes an event in the middle invalid JSON."""


Answer = Said | Failed | Sent | Hung | Streamed
Turn = Answer | Sequence[Answer]
"""A sequence answers repeated attempts of one turn, its last answer all further ones: [hang(30), say("…")]."""


def say(text: str, **more: Any) -> Said:
    return Said(text, **more)


def call(name: str, arguments: dict[str, Any] | str, *, text: str = "", **more: Any) -> Said:
    return Said(text, ((name, arguments if isinstance(arguments, str) else json.dumps(arguments)),), **more)


def together(*answers: Said) -> Said:
    """Combines several tool calls in one answer."""
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
    """Closes the connection without a response."""
    return Hung(0)


def cut(said: Said, at: float = 0.5, *, politely: bool = False) -> Streamed:
    """Cuts the stream in the middle."""
    return Streamed(said, cut=at, politely=politely)


def stall(said: Said, seconds: float, at: float = 0.5) -> Streamed:
    return Streamed(said, cut=at, stall=seconds)


def slowly(said: Said, pace: float) -> Streamed:
    return Streamed(said, pace=pace)


def garbled(said: Said) -> Streamed:
    return Streamed(said, garbled=True)
