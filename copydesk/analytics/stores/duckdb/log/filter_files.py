"""The files of a filter: its words, the checksums (CRC-32) of their blocks, and a footer.

The footer has a mark, the random id of the filter, its capacity, the number of its events, a checksum of the checksums,
and a checksum of the footer. A file is never changed, and its name has the id, so what a database says about an id
stays true for the file.
"""

import mmap
import os
import secrets
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from copydesk.analytics.stores.duckdb.log.bloom_filter import (
    WORD_BYTES,
    BloomFilter,
    FilterCopy,
    FilterDamaged,
    UncheckedBlocks,
    count_blocks,
    count_words,
)
from copydesk.core.runtime.durable_files import sync_to_disk

MARK = b"events01"
FOOTER = struct.Struct("<8sQQQ2I")
CHECKSUM_BYTES = 4
ID_BITS = 63
SUFFIX = ".filter"


class FilterFiles:
    """The folder of the files that belong to a database. Methods that write raise OSError."""

    def __init__(self, database_path: Path) -> None:
        self._folder = get_filter_folder(database_path)

    def write(self, copy: FilterCopy) -> int:
        """Writes a filter durably. Returns its id. Raises FilterDamaged if the filter came from a damaged file."""
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
            sync_to_disk(self._folder.parent)
        checksums = copy.compute_checksums().tobytes()
        filter_id = secrets.randbits(ID_BITS)
        footer = FOOTER.pack(MARK, filter_id, copy.capacity, copy.count, zlib.crc32(checksums), 0)[:-CHECKSUM_BYTES]
        path = self.get_path(filter_id)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(copy.words)
                file.write(checksums + footer + struct.pack("<I", zlib.crc32(footer)))
                file.flush()
                os.fsync(file.fileno())
            sync_to_disk(self._folder)
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise
        return filter_id

    def open(self, filter_id: int, *, is_writable: bool = False) -> BloomFilter:
        """Maps a filter. Events that are added to a writable one change only the memory of this process.

        Raises FilterDamaged if the file is missing or not what was written, as far as this is known without reading
        all of it.
        """
        try:
            with self.get_path(filter_id).open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY if is_writable else mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise FilterDamaged from None
        footer_start = len(content) - FOOTER.size
        if footer_start < 0:
            raise FilterDamaged
        footer = content[footer_start:]
        mark, stored_id, capacity, count, table_checksum, own_checksum = FOOTER.unpack(footer)
        if (mark, stored_id, zlib.crc32(footer[:-CHECKSUM_BYTES])) != (MARK, filter_id, own_checksum):
            raise FilterDamaged
        size = count_words(capacity) * WORD_BYTES
        if size + CHECKSUM_BYTES * count_blocks(size) != footer_start:
            raise FilterDamaged
        table = content[size:footer_start]
        if zlib.crc32(table) != table_checksum:
            raise FilterDamaged
        words = memoryview(content)[:size]
        unchecked = UncheckedBlocks(words, np.frombuffer(table, np.uint32))
        return BloomFilter(capacity, words.cast("Q"), count, unchecked)

    def delete_others(self, *listed_ids: int) -> None:
        """Deletes all files except those of these ids, as far as possible."""
        listed_names = {self.get_path(filter_id).name for filter_id in listed_ids}
        with suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in listed_names:
                    path.unlink(missing_ok=True)

    def exist(self) -> bool:
        return self._folder.exists()

    def get_path(self, filter_id: int) -> Path:
        return self._folder / f"{filter_id:019}{SUFFIX}"


def get_filter_folder(database_path: Path) -> Path:
    return database_path.with_name(f"{database_path.name}.events")
