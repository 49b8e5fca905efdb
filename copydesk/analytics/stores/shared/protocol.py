"""The protocol of the shared store: calls and replies as JSON, each with a length prefix.

JSON cannot make the receiver run code, as pickle can, and is the same in every version of Python, unlike marshal. Views
are sent column by column, which is faster than row by row.
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
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import (
    Correction,
    DayRange,
    LogResult,
    PageQuery,
    RawViewLimits,
    Reclassification,
    SectionQuery,
    Store,
)
from copydesk.analytics.stores.errors import DayOutOfRange, RawViewsDeleted, StoreDamaged, StoreFull, StoreInUse
from copydesk.analytics.stores.export_format import ExportDay
from copydesk.analytics.stores.report_rows import (
    AgentRow,
    Counts,
    HourlyReport,
    HourPoint,
    MissingReport,
    MissingRow,
    PageAgentRow,
    PageCounts,
    PageDetail,
    PageReferrerRow,
    ReferrerCount,
    ReferrerReport,
    ReferrerRow,
    ReferrerTotals,
    ReportPage,
    RuleRow,
    SectionReport,
    SectionRow,
    SiteTotals,
    TimeseriesPoint,
)
from copydesk.core.errors import RequestError, StoreUnavailable

PROTOCOL_VERSION = 1
"""Increase it when messages change. They contain the names of classes and methods."""
GREETING = f"copydesk {__version__} {PROTOCOL_VERSION}".encode()
"""The server sends this first. A client that receives it is connected to a server of the same version."""

LENGTH_PREFIX = struct.Struct(">I")
MAX_RECEIVE_BYTES = 1 << 20
MAX_SOCKET_PATH_BYTES = 100
"""The longest path of a socket: the system's limit is 107 bytes on Linux and 103 elsewhere."""

STORE_METHODS = frozenset(name for name in vars(Store) if not name.startswith("_")) - {"close"}
CLASS_BY_NAME = {str(kind): kind for kind in VisitorClass}
KIND_INDEX = PageView._fields.index("kind")
DECODERS: dict[str, Callable[..., Any]] = {
    **{
        known.__name__: known
        for known in (
            *(AgentRow, PageQuery, TimeseriesPoint, ReportPage, Path, DayRange, PageCounts, RuleRow, Counts),
            *(Reclassification, MissingReport, MissingRow, ReferrerCount, ReferrerReport, ReferrerRow, ReferrerTotals),
            *(SectionQuery, SectionReport, SectionRow, PageDetail, SiteTotals, HourlyReport, HourPoint, ExportDay),
            *(PageAgentRow, PageReferrerRow, RawViewLimits),
        )
    },
    Correction.__name__: lambda views, skipped_days: Correction(views, tuple(skipped_days)),
    LogResult.__name__: lambda accepted, duplicates: LogResult(accepted, tuple(duplicates)),
}
ERROR_TYPES: dict[str, type[RequestError]] = {
    known.__name__: known
    for known in (RequestError, StoreDamaged, StoreUnavailable, StoreFull, StoreInUse, DayOutOfRange, RawViewsDeleted)
}


class CallFailed(RuntimeError):
    message = "The call failed in the process that owns the analytics store. See the log of that process."

    def __init__(self) -> None:
        super().__init__(self.message)


def encode_call(method_name: str, arguments: Sequence[object]) -> bytes:
    if method_name == "log_views":
        [views] = arguments
        assert isinstance(views, Sequence)
        arguments = [list(zip(*views, strict=True))]
    return _to_json([method_name, *arguments])


def decode_call(message: bytes) -> tuple[str, list[Any]]:
    """Returns the method name and the arguments of a call. Raises ValueError for an unknown method."""
    method_name, *arguments = _from_json(message)
    if method_name not in STORE_METHODS:
        raise ValueError(f"unknown method of a store: {method_name}")
    if method_name == "log_views":
        [columns] = arguments
        if columns:
            columns[KIND_INDEX] = [CLASS_BY_NAME[kind] for kind in columns[KIND_INDEX]]
        arguments = [list(map(PageView._make, zip(*columns, strict=True)))]
    return method_name, arguments


def encode_result(value: object) -> bytes:
    return _to_json(["done", value])


def encode_error(error: RequestError) -> bytes:
    """Encodes an error as the nearest base class that both sides know."""
    type_name = next(error_type.__name__ for error_type in type(error).__mro__ if error_type.__name__ in ERROR_TYPES)
    return _to_json(["refused", type_name, error.message])


def encode_failure() -> bytes:
    return _to_json(["failed"])


def decode_reply(message: bytes) -> Any:
    """Returns the result of a call, or raises its error."""
    match _from_json(message):
        case ["done", value]:
            return value
        case ["refused", type_name, error_text]:
            error = ERROR_TYPES[type_name]()
            error.message = error_text
            error.args = (error_text,)
            raise error
    raise CallFailed


def send_message(connection: socket.socket, message: bytes) -> None:
    connection.sendall(LENGTH_PREFIX.pack(len(message)) + message)


def receive_message(connection: socket.socket) -> bytes | None:
    """Returns the next message, or None if the other side has closed the connection, even within a message."""
    header = _receive_exactly(connection, LENGTH_PREFIX.size)
    if header is None:
        return None
    (size,) = LENGTH_PREFIX.unpack(header)
    return _receive_exactly(connection, size)


@contextmanager
def socket_address(path: Path) -> Iterator[bytes]:
    """Yields the address of a socket. If its path is too long, uses the descriptor of its folder instead."""
    encoded_path = os.fsencode(path)
    if len(encoded_path) <= MAX_SOCKET_PATH_BYTES:
        yield encoded_path
        return
    folder_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield b"/proc/self/fd/%d/%s" % (folder_fd, os.fsencode(path.name))
    finally:
        os.close(folder_fd)


def _receive_exactly(connection: socket.socket, size: int) -> bytes | None:
    """Receives `size` bytes. Allocates memory as data arrives, so that a false length prefix costs nothing."""
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(min(size - len(received), MAX_RECEIVE_BYTES))
        if not chunk:
            return None
        received += chunk
    return bytes(received)


def _to_json(message: object) -> bytes:
    return json.dumps(message, default=_encode_value, separators=(",", ":")).encode()


def _from_json(message: bytes) -> Any:
    return json.loads(message, object_hook=_decode_value)


def _encode_value(value: object) -> object:
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Path):
        return {"Path": [str(value)]}
    assert is_dataclass(value), f"cannot be sent: {value!r}"
    return {type(value).__name__: [getattr(value, field.name) for field in fields(value)]}


def _decode_value(value: dict[str, list[Any]]) -> object:
    [(type_name, field_values)] = value.items()
    return DECODERS[type_name](*field_values)
