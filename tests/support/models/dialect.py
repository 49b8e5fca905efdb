"""What a wire format has to say for itself."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import TypeAdapter

from tests.support.models.answers import Failed, Said

Body = dict[str, Any]


class Dialect(ABC):
    """Requests are checked against the types of the provider's own library, and so is everything that is answered."""

    name: ClassVar[str]

    @abstractmethod
    def check(self, body: Body) -> None:
        """ValidationError when the provider would not take this request."""

    @abstractmethod
    def turn(self, body: Body) -> int:
        """How often the model has spoken in this conversation."""

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
    """A check that a body is what this typed dictionary of a provider's library describes, and has nothing else."""
    adapter: TypeAdapter[Any] = TypeAdapter(declared)
    known = declared.__required_keys__ | declared.__optional_keys__

    def check(body: Body) -> None:
        if unknown := body.keys() - known:
            raise ValueError(f"Unknown parameters: {', '.join(sorted(unknown))}.")
        fits(adapter, body)

    return check


def fits(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Validates all of it: what is declared as iterable is otherwise only checked when somebody iterates."""
    _exhaust(adapter.validate_python(value))
    return value


def _exhaust(value: Any) -> None:
    if isinstance(value, Mapping):
        _exhaust(value.values())
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _exhaust(inner)


def pieces(text: str, count: int = 3) -> list[str]:
    """A text in a few parts, as it would be streamed."""
    step = max(1, -(-len(text) // count))
    return [text[n : n + step] for n in range(0, len(text), step)]
