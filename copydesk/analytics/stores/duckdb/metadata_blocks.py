"""Saves the blocks of a DuckDB file that a checkpoint overwrites, and puts them back if it did not finish.

A checkpoint writes data into unused blocks and then switches to them with a new header. But it adds its metadata to
blocks that the current header uses, in place. If the process is killed or the disk becomes full during such a write,
the block is torn, its checksum is wrong, and DuckDB cannot open the file. So these blocks are copied to a file of their
own before. When the database is opened and its headers are still those of the copy, the blocks are written back: what
the current header uses is in them, and the write-ahead log has the rest.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

HEADERS_BYTES = 12_288
"""The file begins with three headers: the first has a random identifier, the others take turns as the current one."""
BLOCK_SIZE = struct.Struct("<Q")
BLOCK_SIZE_STARTS = (4_096 + 40, 8_192 + 40)
"""Where the second and the third header have the size of a block."""
FILE_MARK = b"DUCK"
FILE_MARK_START = 8
COPY_MARK = b"blocks01"
COPY_HEADER = struct.Struct("<8sQQI")
"""The mark, the size and the number of the blocks, and a CRC-32 of what follows: the headers of the database, the
numbers of the blocks, and the blocks."""


class MetadataBlocks:
    """The metadata of an open database. Keeps the file open, because closing it would release DuckDB's lock on it."""

    def __init__(self, path: Path) -> None:
        self._copy_path = get_copy_path(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def save(self, block_ids: Iterable[int]) -> None:
        """Copies these blocks durably. Call it before a checkpoint, and delete the copy after it."""
        headers = os.pread(self._descriptor, HEADERS_BYTES, 0)
        if (block_bytes := _find_block_size(headers)) is None:
            return
        ids = sorted(block_ids)
        blocks = [os.pread(self._descriptor, block_bytes, HEADERS_BYTES + block * block_bytes) for block in ids]
        content = headers + struct.pack(f"<{len(ids)}Q", *ids) + b"".join(blocks)
        descriptor = os.open(self._copy_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(COPY_HEADER.pack(COPY_MARK, block_bytes, len(ids), zlib.crc32(content)))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Call it after DuckDB has closed the file."""
        os.close(self._descriptor)


def restore_metadata_blocks(path: Path) -> bool:
    """Puts the blocks back if a checkpoint did not finish. Returns whether the file had other ones.

    Call it before DuckDB opens the file. Does nothing without a whole copy that has the same headers as the file, or if
    another process has opened the file.
    """
    try:
        copy = get_copy_path(path).read_bytes()
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as DuckDB does
        has_changed = False
        for start, block in _read_copy(copy, os.pread(descriptor, HEADERS_BYTES, 0)):
            if os.pread(descriptor, len(block), start) != block:
                os.pwrite(descriptor, block, start)
                has_changed = True
        os.fsync(descriptor)
        return has_changed
    except (BlockingIOError, PermissionError):  # another process uses the database, perhaps for a checkpoint
        return False
    finally:
        os.close(descriptor)


def get_copy_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.blocks")


def _read_copy(copy: bytes, headers: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the copied blocks with their places in the file; none if the copy is not whole or has other headers."""
    if len(copy) < COPY_HEADER.size + HEADERS_BYTES:
        return
    mark, block_bytes, block_count, checksum = COPY_HEADER.unpack_from(copy)
    content = memoryview(copy)[COPY_HEADER.size :]
    if mark != COPY_MARK or zlib.crc32(content) != checksum or content[:HEADERS_BYTES] != headers:
        return
    ids = struct.unpack_from(f"<{block_count}Q", content, HEADERS_BYTES)
    first = HEADERS_BYTES + 8 * block_count
    for number, block in enumerate(ids):
        start = first + number * block_bytes
        yield HEADERS_BYTES + block * block_bytes, bytes(content[start : start + block_bytes])


def _find_block_size(headers: bytes) -> int | None:
    """Returns the size of a block; None if the file has another format."""
    if len(headers) < HEADERS_BYTES or headers[FILE_MARK_START:][: len(FILE_MARK)] != FILE_MARK:
        return None
    return max(BLOCK_SIZE.unpack_from(headers, start)[0] for start in BLOCK_SIZE_STARTS) or None
