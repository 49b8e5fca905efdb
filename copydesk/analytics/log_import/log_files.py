"""Files in blocks of whole lines: plain or gzip, of any size, torn or damaged, in little memory."""

import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from copydesk.core.errors import NotFound

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
"""What a line has beyond is cut off."""
STANDARD_INPUT = "-"
GZIP_MAGIC, GZIP_WINDOW_BITS = b"\x1f\x8b", 31
UNSUPPORTED_FORMATS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
}


class FileNotReadable(NotFound):
    message = "The file cannot be read."


class TextBlock(NamedTuple):
    text: str
    """Whole lines with newlines between; bytes that are not UTF-8 are kept as surrogates."""
    ended: bool
    """False for a last line that nothing ends."""


class LogFile:
    """One file that is read from its beginning to its end."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self._file = file
        self.bytes_read = 0
        """Bytes of the file so far, as they lie on the disk."""
        self.read_error = ""
        """Why reading ended early: what was read until then counts."""

    def read_blocks(self) -> Iterator[TextBlock]:
        remainder = b""
        for chunk in self._read_chunks():
            head, newline, tail = chunk.rpartition(b"\n")
            if newline:
                yield TextBlock(_decode(remainder + head + newline)[:-1], ended=True)
                remainder = tail
            else:
                remainder = (remainder + tail)[:MAX_LINE_BYTES]
        if remainder:
            yield TextBlock(_decode(remainder), ended=False)

    def _read_chunks(self) -> Iterator[bytes]:
        chunk = self._read_block()
        if chunk.startswith(GZIP_MAGIC):
            yield from self._decompress(chunk)
            return
        for magic, format_name in UNSUPPORTED_FORMATS.items():
            if chunk.startswith(magic):
                raise FileNotReadable(
                    f"{self.name} is {format_name}: unpack it first, and give '-' to read standard input."
                )
        while chunk:
            yield chunk
            chunk = self._read_block()

    def _decompress(self, compressed: bytes) -> Iterator[bytes]:
        """Several gzip files in one, as rotation makes them, are one log."""
        decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
        while compressed:
            try:
                data = decompressor.decompress(compressed, BLOCK_BYTES)
            except zlib.error:
                self.read_error = "its gzip data is damaged"
                return
            if data:
                yield data
            compressed = decompressor.unconsumed_tail
            if decompressor.eof:
                compressed = (decompressor.unused_data or self._read_block()).lstrip(
                    b"\0"
                )  # tapes and object stores pad with zeros
                decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
            elif not compressed:
                compressed = self._read_block()
                if not compressed:
                    self.read_error = "its gzip data breaks off"

    def _read_block(self) -> bytes:
        data = self._file.read(BLOCK_BYTES)
        self.bytes_read += len(data)
        return data


@contextmanager
def open_log_file(name: str) -> Iterator[LogFile]:
    """Standard input for `-`. CannotRead, in one sentence, for what is no readable file."""
    if name == STANDARD_INPUT:
        yield LogFile("standard input", sys.stdin.buffer)
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below; only opening it may be refused here
        file.peek(1)
    except OSError as error:
        raise FileNotReadable(f"{name} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    with file:
        yield LogFile(name, file)


def is_stream(name: str) -> bool:
    """Standard input, a pipe or the like, which can be read once."""
    path = Path(name)
    return name == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def total_bytes(names: Sequence[str]) -> int | None:
    """Bytes of all of them; None where that cannot be known."""
    return None if any(map(is_stream, names)) else sum(Path(name).stat().st_size for name in names)


def _decode(lines: bytes) -> str:
    return lines.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
