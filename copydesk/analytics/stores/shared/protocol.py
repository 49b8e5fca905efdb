"""What goes over the socket: calls and answers as JSON, each after its length.

JSON, because neither side can make the other run anything by it, as pickle can, and it reads the same in every version
of Python, as marshal does not. Views go column by column, which is half again as fast as row by row.
"""

import json
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from copydesk import __version__
from copydesk.analytics.page_view import Class, View
from copydesk.analytics.stores.base import (
    AgentRow,
    Choice,
    Logged,
    Moment,
    Page,
    Range,
    Row,
    RuleRow,
    Split,
    Store,
    StoreDamaged,
    StoreFull,
    StoreInUse,
    UnknownDay,
)
from copydesk.core.errors import Refusal, StoreDown

GREETING = f"copydesk {__version__}".encode()
"""The owner speaks first: whoever has heard it was let in, and both are of one version."""

LENGTH = struct.Struct(">I")
CHUNK = 1 << 20
LONGEST_ADDRESS = 100
"""Bytes; a socket's address has room for 107 on Linux, for 103 elsewhere."""

CALLS = frozenset(name for name in vars(Store) if not name.startswith("_")) - {"close"}
CLASSES = {str(kind): kind for kind in Class}
KIND = View._fields.index("kind")
TYPES: dict[str, Callable[..., Any]] = {
    **{known.__name__: known for known in (AgentRow, Choice, Moment, Page, Path, Range, Row, RuleRow, Split)},
    Logged.__name__: lambda accepted, duplicates: Logged(accepted, tuple(duplicates)),
}
REFUSALS: dict[str, type[Refusal]] = {
    known.__name__: known for known in (Refusal, StoreDamaged, StoreDown, StoreFull, StoreInUse, UnknownDay)
}


class CallFailed(RuntimeError):
    message = "The call failed in the process that owns the analytics store; its log says why."

    def __init__(self) -> None:
        super().__init__(self.message)


def call(name: str, arguments: Sequence[object]) -> bytes:
    if name == "log":
        [views] = arguments
        assert isinstance(views, Sequence)
        arguments = [list(zip(*views, strict=True))]
    return _dumped([name, *arguments])


def called(message: bytes) -> tuple[str, list[Any]]:
    """The name of the call and what it was made with."""
    name, *arguments = _loaded(message)
    if name not in CALLS:
        raise ValueError(f"no call of a store: {name}")
    if name == "log":
        [columns] = arguments
        if columns:
            columns[KIND] = [CLASSES[kind] for kind in columns[KIND]]
        arguments = [list(map(View._make, zip(*columns, strict=True)))]
    return name, arguments


def done(value: object) -> bytes:
    return _dumped(["done", value])


def refused(refusal: Refusal) -> bytes:
    """By the nearest class that both sides know."""
    known = next(kind.__name__ for kind in type(refusal).__mro__ if kind.__name__ in REFUSALS)
    return _dumped(["refused", known, refusal.message])


def failed() -> bytes:
    return _dumped(["failed"])


def answered(message: bytes) -> Any:
    """What the call returned; or raises what it raised."""
    match _loaded(message):
        case ["done", value]:
            return value
        case ["refused", known, text]:
            refusal = REFUSALS[known]()
            refusal.message, refusal.args = text, (text,)
            raise refusal
    raise CallFailed


def send(line: socket.socket, message: bytes) -> None:
    line.sendall(LENGTH.pack(len(message)) + message)


def receive(line: socket.socket) -> bytes | None:
    """None when the other side has closed, be it in the middle."""
    head = _exactly(line, LENGTH.size)
    return head and _exactly(line, *LENGTH.unpack(head))


@contextmanager
def address(path: Path) -> Iterator[bytes]:
    """How the socket is called. One with a long path is reached through the descriptor of its folder."""
    name = os.fsencode(path)
    if len(name) <= LONGEST_ADDRESS:
        yield name
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield b"/proc/self/fd/%d/%s" % (folder, os.fsencode(path.name))
    finally:
        os.close(folder)


def _exactly(line: socket.socket, count: int) -> bytes | None:
    """Takes up memory for what has come, not for what was announced."""
    taken = bytearray()
    while len(taken) < count:
        part = line.recv(min(count - len(taken), CHUNK))
        if not part:
            return None
        taken += part
    return bytes(taken)


def _dumped(message: object) -> bytes:
    return json.dumps(message, default=_plain, separators=(",", ":")).encode()


def _loaded(message: bytes) -> Any:
    return json.loads(message, object_hook=_typed)


def _plain(value: object) -> object:
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Path):
        return {"Path": [str(value)]}
    assert is_dataclass(value), f"cannot be sent: {value!r}"
    return {type(value).__name__: [getattr(value, field.name) for field in fields(value)]}


def _typed(value: dict[str, list[Any]]) -> object:
    [(name, parts)] = value.items()
    return TYPES[name](*parts)
