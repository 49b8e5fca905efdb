"""The interface of a wire format."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import TypeAdapter

from tests.support.models.answers import Failed, Said

Body = dict[str, Any]


class Dialect(ABC):
    """A wire format. Requests and answers are checked against the types of the provider's own library."""

    name: ClassVar[str]

    @abstractmethod
    def check(self, body: Body) -> None:
        """Raises ValidationError if the provider would reject this request."""

    @abstractmethod
    def turn(self, body: Body) -> int:
        """Counts the answers of the model in this conversation."""

    @abstractmethod
    def whole(self, said: Said, place: int, model: str) -> Body: ...

    @abstractmethod
    def events(self, said: Said, place: int, model: str) -> Iterator[Body]: ...

    @abstractmethod
    def error(self, failed: Failed) -> Body: ...

    def streams(self, path: str, body: Body) -> bool:
        return bool(body.get("stream"))

    def model(self, path: str, body: Body) -> str:
        return str(body["model"])

    def framed(self, event: Body) -> str:
        return f"data: {json.dumps(event)}\n\n"

    def farewell(self) -> str:
        return ""


def parameters(declared: Any) -> Callable[[Body], None]:
    """Returns a check that a body matches this typed dictionary of a provider's library, without extra fields."""
    adapter: TypeAdapter[Any] = TypeAdapter(declared)
    known = declared.__required_keys__ | declared.__optional_keys__

    def check(body: Body) -> None:
        if unknown := body.keys() - known:
            raise ValueError(f"Unknown parameters: {', '.join(sorted(unknown))}.")
        fits(adapter, body)

    return check


def fits(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Validates completely, including iterables, which pydantic otherwise only checks during iteration."""
    _exhaust(adapter.validate_python(value))
    return value


def _exhaust(value: Any) -> None:
    if isinstance(value, Mapping):
        _exhaust(value.values())
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _exhaust(inner)


def pieces(text: str, count: int = 3) -> list[str]:
    """Splits a text into a few parts, as in a stream."""
    step = max(1, -(-len(text) // count))
    return [text[n : n + step] for n in range(0, len(text), step)]
