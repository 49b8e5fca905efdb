"""A run: a file of visits sorted by key, which is never changed. Visits are found by a binary search in its keys.

The columns follow each other (key, scope, day, bits), then a footer: a mark, the number of rows, and a CRC-32 of each
column, which is checked when the whole run is read.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    NO_VISITS,
    Keys,
    Positions,
    VisitRows,
    find_sorted,
    join_visits,
)
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.core.errors import StoreUnavailable

COLUMN_BYTES = (8, 4, 2, 1)
"""The bytes of a key, a scope, a day and the bits. Numbers are little-endian, as on every supported machine."""
ROW_BYTES = sum(COLUMN_BYTES)
FOOTER = struct.Struct("<8sQ4I")
MARK = b"visits01"
READ_BYTES = 8_000_000
MAX_LOOKUPS_BEFORE_RELEASE = 2_000
"""After this many searches for a key, the memory of the pages that they read is returned: a few pages each."""


class RunFile:
    """An open run."""

    def __init__(self, path: Path, rows: int) -> None:
        """Opens a run with this many rows. Raises StoreDamaged if the file is missing or has another size."""
        self.path = path
        self.rows = rows
        self._lookups = 0
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except (FileNotFoundError, ValueError):
            raise StoreDamaged from None
        except OSError as error:
            raise StoreUnavailable from error
        if len(self._map) != rows * ROW_BYTES + FOOTER.size:
            raise StoreDamaged
        mark, footer_rows, *self._checksums = FOOTER.unpack_from(self._map, rows * ROW_BYTES)
        if (mark, footer_rows) != (MARK, rows):
            raise StoreDamaged
        starts = list_column_starts(rows)
        self._visits = VisitRows(
            np.frombuffer(self._map, np.int64, rows, starts[0]),
            np.frombuffer(self._map, np.int32, rows, starts[1]),
            np.frombuffer(self._map, np.uint16, rows, starts[2]),
            np.frombuffer(self._map, np.uint8, rows, starts[3]),
        )

    @property
    def key(self) -> Keys:
        return self._visits.key

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        positions, parts = [np.empty(0, np.int64)], [NO_VISITS]
        for first in range(0, len(keys), MAX_LOOKUPS_BEFORE_RELEASE):
            some_keys = keys[first : first + MAX_LOOKUPS_BEFORE_RELEASE]
            positions.append(find_sorted(self._visits.key, some_keys))
            parts.append(self.take(positions[-1]))
            self._lookups += len(some_keys)
            if self._lookups >= MAX_LOOKUPS_BEFORE_RELEASE:
                self.release_memory()
        return np.concatenate(positions), join_visits(parts)

    def take(self, positions: Positions | slice) -> VisitRows:
        return self._visits.take(positions)

    def verify(self) -> None:
        """Reads the whole run. Raises StoreDamaged if its content is not what was written."""
        for column, checksum in zip(self._visits.columns(), self._checksums, strict=True):
            found = 0
            content = column.data.cast("B")
            for first in range(0, len(content), READ_BYTES):
                found = zlib.crc32(content[first : first + READ_BYTES], found)
                self.release_memory()
            if found != checksum:
                raise StoreDamaged

    def release_memory(self) -> None:
        """Returns the pages of the file that this process holds to the operating system, which may keep them."""
        self._map.madvise(mmap.MADV_DONTNEED)
        self._lookups = 0


def get_run_folder(database_path: Path) -> Path:
    return database_path.with_name(f"{database_path.name}.visits")


def get_run_path(database_path: Path, run_id: int) -> Path:
    return get_run_folder(database_path) / f"{run_id:08}.run"


def write_run(path: Path, rows: int, parts: Iterable[VisitRows]) -> None:
    """Writes a run and flushes it to the disk. The parts must be in order and have this many rows together."""
    starts = list_column_starts(rows)
    checksums = [0] * len(COLUMN_BYTES)
    done = 0
    with path.open("wb") as file:
        for part in parts:
            for number, column in enumerate(part.columns()):
                content = column.data.cast("B")
                checksums[number] = zlib.crc32(content, checksums[number])
                file.seek(starts[number] + done * COLUMN_BYTES[number])
                file.write(content)
            done += len(part)
        if done != rows:
            raise ValueError(f"A run of {rows} rows got {done}.")
        file.seek(rows * ROW_BYTES)
        file.write(FOOTER.pack(MARK, rows, *checksums))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def list_column_starts(rows: int) -> list[int]:
    """Returns where each column starts in the file."""
    return [rows * sum(COLUMN_BYTES[:number]) for number in range(len(COLUMN_BYTES))]


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
