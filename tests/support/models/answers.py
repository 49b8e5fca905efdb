"""Answers of a scripted model, and their faults, independent of the wire format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class ModelAnswer:
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
class ErrorAnswer:
    """An error in the provider's format."""

    status: int
    message: str
    headers: tuple[tuple[str, str], ...] = ()
    code: str | None = None


@dataclass(frozen=True)
class RawAnswer:
    """A response given as bytes."""

    status: int
    body: str


@dataclass(frozen=True)
class HangingAnswer:
    """Silence, followed by an answer, or by a closed connection if there is none."""

    seconds: float
    then: "Answer | None" = None


@dataclass(frozen=True)
class FaultyStream:
    """An answer with a faulty stream."""

    answer: ModelAnswer
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


Answer = ModelAnswer | ErrorAnswer | RawAnswer | HangingAnswer | FaultyStream
Turn = Answer | Sequence[Answer]
"""A sequence answers repeated attempts of one turn, its last answer all further ones: [hang(30), say("…")]."""


def say(text: str, **more: Any) -> ModelAnswer:
    return ModelAnswer(text, **more)


def call(name: str, arguments: dict[str, Any] | str, *, text: str = "", **more: Any) -> ModelAnswer:
    return ModelAnswer(text, ((name, arguments if isinstance(arguments, str) else json.dumps(arguments)),), **more)


def call_several(*answers: ModelAnswer) -> ModelAnswer:
    """Combines several tool calls in one answer."""
    return replace(answers[0], calls=tuple(one for answer in answers for one in answer.calls))


def fail(
    status: int,
    message: str = "The script says so.",
    *,
    retry_after: float | str | None = None,
    code: str | None = None,
) -> ErrorAnswer:
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return ErrorAnswer(status, message, headers, code)


def send(body: str, *, status: int = 200) -> RawAnswer:
    return RawAnswer(status, body)


def hang(seconds: float, then: Answer | None = None) -> HangingAnswer:
    return HangingAnswer(seconds, then)


def drop() -> HangingAnswer:
    """Closes the connection without a response."""
    return HangingAnswer(0)


def cut(answer: ModelAnswer, at: float = 0.5, *, politely: bool = False) -> FaultyStream:
    """Cuts the stream in the middle."""
    return FaultyStream(answer, cut=at, politely=politely)


def stall(answer: ModelAnswer, seconds: float, at: float = 0.5) -> FaultyStream:
    return FaultyStream(answer, cut=at, stall=seconds)


def slow_down(answer: ModelAnswer, pace: float) -> FaultyStream:
    return FaultyStream(answer, pace=pace)


def garble(answer: ModelAnswer) -> FaultyStream:
    return FaultyStream(answer, garbled=True)
