"""Reads log files in blocks of whole lines: plain or gzip, of any size, in bounded memory, even if damaged."""

import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from copydesk.core.errors import NotFound

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
"""Longer lines are truncated."""
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
    """Whole lines, separated by newlines. Bytes that are not UTF-8 become surrogates."""
    ended: bool
    """False for a last line without a newline."""


class LogFile:
    """A log file that is read once, from start to end."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self._file = file
        self.bytes_read = 0
        """Bytes read from disk so far, before decompression."""
        self.read_error = ""
        """Why reading ended early; "" means no error. The lines before the error count."""

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

    def copy_to(self, target: BinaryIO) -> None:
        """Copies the bytes as they are, compressed or not."""
        shutil.copyfileobj(self._file, target, BLOCK_BYTES)

    def _read_chunks(self) -> Iterator[bytes]:
        chunk = self._read_block()
        if chunk.startswith(GZIP_MAGIC):
            yield from self._decompress(chunk)
            return
        for magic, format_name in UNSUPPORTED_FORMATS.items():
            if chunk.startswith(magic):
                raise FileNotReadable(
                    f"{self.name} is a {format_name} file. Decompress it first, or pipe it to '-' (standard input)."
                )
        while chunk:
            yield chunk
            chunk = self._read_block()

    def _decompress(self, compressed: bytes) -> Iterator[bytes]:
        """Yields decompressed data. Concatenated gzip files, as log rotation may produce, are read as one log."""
        decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
        while compressed:
            try:
                data = decompressor.decompress(compressed, BLOCK_BYTES)
            except zlib.error:
                self.read_error = "the gzip data is damaged"
                return
            if data:
                yield data
            compressed = decompressor.unconsumed_tail
            if decompressor.eof:
                # Tapes and object stores pad with zeros.
                compressed = (decompressor.unused_data or self._read_block()).lstrip(b"\0")
                decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
            elif not compressed:
                compressed = self._read_block()
                if not compressed:
                    self.read_error = "the gzip data is incomplete"

    def _read_block(self) -> bytes:
        data = self._file.read(BLOCK_BYTES)
        self.bytes_read += len(data)
        return data


@contextmanager
def open_log_file(name: str, copy: str | None = None) -> Iterator[LogFile]:
    """Opens a file, or standard input for `-`. Raises FileNotReadable with a one-sentence message.

    `copy` is the path of a copy of a stream, which is read instead.
    """
    shown_name = "standard input" if name == STANDARD_INPUT else name
    if name == STANDARD_INPUT and copy is None:
        yield LogFile(shown_name, sys.stdin.buffer)
        return
    try:
        file = Path(copy or name).open("rb")  # noqa: SIM115 - closed below; only errors of opening are translated here
        file.peek(1)
    except OSError as error:
        raise FileNotReadable(f"Cannot read {name}: {(error.strerror or str(error)).lower()}.") from error
    with file:
        yield LogFile(shown_name, file)


@contextmanager
def copy_streams(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Copies streams to temporary files, because a log is read twice. Yields the paths of the copies by name."""
    with TemporaryDirectory(prefix="copydesk-import-") as folder:
        copies: dict[str, str] = {}
        for name in dict.fromkeys(filter(is_stream, names)):
            copies[name] = str(Path(folder) / str(len(copies)))
            with open_log_file(name) as log_file, Path(copies[name]).open("wb") as copy:
                log_file.copy_to(copy)
        yield copies


def is_stream(name: str) -> bool:
    """Returns whether this is standard input, a pipe or another stream that can be read only once."""
    path = Path(name)
    return name == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def total_bytes(names: Sequence[str], copies: Mapping[str, str]) -> int | None:
    """Returns the size of all files, or None if one is a stream without a copy."""
    paths = [copies.get(name, name) for name in names]
    return None if any(map(is_stream, paths)) else sum(Path(path).stat().st_size for path in paths)


def _decode(lines: bytes) -> str:
    return lines.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
