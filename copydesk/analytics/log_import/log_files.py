"""Files in blocks of whole lines: plain or gzip, of any size, torn or damaged, in little memory."""

import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from copydesk.core.errors import NotFound

BLOCK = 1 << 20
LONGEST_LINE = 1 << 16
"""What a line has beyond is cut off."""
STANDARD_INPUT = "-"
GZIP, GZIP_WINDOW = b"\x1f\x8b", 31
OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"PAR1": "Parquet"}


class CannotRead(NotFound):
    message = "The file cannot be read."


class Block(NamedTuple):
    text: str
    """Whole lines with newlines between; bytes that are not UTF-8 are kept as surrogates."""
    ended: bool
    """False for a last line that nothing ends."""


class Log:
    """One file that is read from its beginning to its end."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self._file = file
        self.read = 0
        """Bytes of the file so far, as they lie on the disk."""
        self.fault = ""
        """Why reading ended early: what was read until then counts."""

    def blocks(self) -> Iterator[Block]:
        rest = b""
        for piece in self._pieces():
            head, newline, tail = piece.rpartition(b"\n")
            if newline:
                yield Block(_text(rest + head + newline)[:-1], ended=True)
                rest = tail
            else:
                rest = (rest + tail)[:LONGEST_LINE]
        if rest:
            yield Block(_text(rest), ended=False)

    def _pieces(self) -> Iterator[bytes]:
        first = self._next()
        if first.startswith(GZIP):
            yield from self._unpacked(first)
            return
        for magic, name in OTHERS.items():
            if first.startswith(magic):
                raise CannotRead(f"{self.name} is {name}: unpack it first, and give '-' to read standard input.")
        while first:
            yield first
            first = self._next()

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        """Several gzip files in one, as rotation makes them, are one log."""
        inner = zlib.decompressobj(GZIP_WINDOW)
        while packed:
            try:
                plain = inner.decompress(packed, BLOCK)
            except zlib.error:
                self.fault = "its gzip data is damaged"
                return
            if plain:
                yield plain
            packed = inner.unconsumed_tail
            if inner.eof:
                packed = (inner.unused_data or self._next()).lstrip(b"\0")  # tapes and object stores pad with zeros
                inner = zlib.decompressobj(GZIP_WINDOW)
            elif not packed:
                packed = self._next()
                if not packed:
                    self.fault = "its gzip data breaks off"

    def _next(self) -> bytes:
        data = self._file.read(BLOCK)
        self.read += len(data)
        return data


@contextmanager
def opened(name: str) -> Iterator[Log]:
    """Standard input for `-`. CannotRead, in one sentence, for what is no readable file."""
    if name == STANDARD_INPUT:
        yield Log("standard input", sys.stdin.buffer)
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below; only opening it may be refused here
        file.peek(1)
    except OSError as error:
        raise CannotRead(f"{name} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    with file:
        yield Log(name, file)


def is_stream(name: str) -> bool:
    """Standard input, a pipe or the like, which can be read once."""
    path = Path(name)
    return name == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def size_of(names: Sequence[str]) -> int | None:
    """Bytes of all of them; None where that cannot be known."""
    return None if any(map(is_stream, names)) else sum(Path(name).stat().st_size for name in names)


def _text(lines: bytes) -> str:
    return lines.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
