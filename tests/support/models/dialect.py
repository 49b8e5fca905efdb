"""The interface of a wire format."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import TypeAdapter

from tests.support.models.answers import ErrorAnswer, ModelAnswer

JsonObject = dict[str, Any]


class Dialect(ABC):
    """A wire format. Requests and answers are checked against the types of the provider's own library."""

    name: ClassVar[str]

    @abstractmethod
    def check(self, body: JsonObject) -> None:
        """Raises ValidationError if the provider would reject this request."""

    @abstractmethod
    def count_turns(self, body: JsonObject) -> int:
        """Counts the answers of the model in this conversation."""

    @abstractmethod
    def full_response(self, reply: ModelAnswer, place: int, model: str) -> JsonObject: ...

    @abstractmethod
    def stream_events(self, reply: ModelAnswer, place: int, model: str) -> Iterator[JsonObject]: ...

    @abstractmethod
    def error(self, failed: ErrorAnswer) -> JsonObject: ...

    def streams(self, path: str, body: JsonObject) -> bool:
        return bool(body.get("stream"))

    def model(self, path: str, body: JsonObject) -> str:
        return str(body["model"])

    def frame_event(self, event: JsonObject) -> str:
        return f"data: {json.dumps(event)}\n\n"

    def end_of_stream(self) -> str:
        return ""


def request_checker(declared: Any) -> Callable[[JsonObject], None]:
    """Returns a check that a body matches this typed dictionary of a provider's library, without extra fields."""
    adapter: TypeAdapter[Any] = TypeAdapter(declared)
    known_keys = declared.__required_keys__ | declared.__optional_keys__

    def check(body: JsonObject) -> None:
        if unknown := body.keys() - known_keys:
            raise ValueError(f"Unknown parameters: {', '.join(sorted(unknown))}.")
        validate_all(adapter, body)

    return check


def validate_all(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Validates completely, including iterables, which pydantic otherwise only checks during iteration."""
    _exhaust(adapter.validate_python(value))
    return value


def _exhaust(value: Any) -> None:
    if isinstance(value, Mapping):
        _exhaust(value.values())
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _exhaust(inner)


def split_text(text: str, count: int = 3) -> list[str]:
    """Splits a text into a few parts, as in a stream."""
    step = max(1, -(-len(text) // count))
    return [text[n : n + step] for n in range(0, len(text), step)]
