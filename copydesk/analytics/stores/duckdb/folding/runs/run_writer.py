"""Writes runs. Where the filter and the pages begin follows from the number of rows, so both grow at once, and take no
memory."""

import os
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.key_filter import (
    FilterBuilder,
    choose_filter_bits,
    count_filter_bytes,
)
from copydesk.analytics.stores.duckdb.folding.runs.run_file import FOOTER, MARK
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    KeysTooFarApart,
    PageLayout,
    VisitBounds,
    list_layouts,
)
from copydesk.analytics.stores.duckdb.folding.visit_rows import NO_VISITS, VisitRows, join_visits
from copydesk.analytics.stores.errors import StoreFull
from copydesk.core.runtime.durable_files import sync_to_disk

ROWS_ENCODED_AT_ONCE = 1 << 16
"""A multiple of the rows of a page. Encoding takes several times the memory of the visits."""


def write_run(path: Path, rows: int, bounds: VisitBounds, read_parts: Callable[[], Iterable[VisitRows]]) -> None:
    """Writes a run and flushes it to the disk.

    The parts must be in order, have this many rows together, and be within the bounds. They are read again if their
    keys turn out to be too far apart for narrow ones. Raises StoreFull if the disk refuses the file.
    """
    try:
        for layout in list_layouts(rows, bounds):
            if _try_to_write(path, rows, layout, read_parts()):
                break
        sync_to_disk(path.parent)
    except OSError as error:
        raise StoreFull from error


def _try_to_write(path: Path, rows: int, layout: PageLayout, parts: Iterable[VisitRows]) -> bool:
    """Returns False if keys are too far apart for the layout."""
    with path.open("wb") as file:
        writer = RunWriter(file, rows, layout)
        try:
            for part in parts:
                writer.add(part)
            writer.finish()
        except KeysTooFarApart:
            return False
        file.flush()
        os.fsync(file.fileno())
    return True


class RunWriter:
    """Writes one run."""

    def __init__(self, file: BinaryIO, rows: int, layout: PageLayout) -> None:
        self._file = file
        self._rows = rows
        self._layout = layout
        self._filter_bits = choose_filter_bits(rows)
        self._filter_builder = FilterBuilder(self._filter_bits)
        page_place = count_filter_bytes(self._filter_bits)
        self._filter_part = PartWriter(file, 0)
        self._page_part = PartWriter(file, page_place)
        self._fences = [NO_VISITS.key]
        self._key_numbers = [np.empty(0, np.uint8)]
        """The number of keys of each page, less one."""
        self._written_rows = 0
        self._waiting = NO_VISITS
        """Fewer visits than a page has, which wait for the next ones."""

    def add(self, visits: VisitRows) -> None:
        """Writes visits that follow the earlier ones."""
        self._filter_part.write(self._filter_builder.add(visits.key).data)
        visits = join_visits([self._waiting, visits]) if len(self._waiting) else visits
        whole_rows = len(visits) // self._layout.page_rows * self._layout.page_rows
        self._write_pages(visits.take(slice(0, whole_rows)))
        self._waiting = visits.take(slice(whole_rows, len(visits)))

    def finish(self) -> None:
        """Writes the last page and what follows the pages."""
        self._write_pages(self._waiting)
        if self._written_rows != self._rows:
            raise ValueError(f"A run of {self._rows} rows got {self._written_rows}.")
        self._filter_part.write(memoryview(self._filter_builder.finish()))
        fence_part = PartWriter(self._file, self._page_part.end)
        fence_part.write(np.concatenate(self._fences).data.cast("B"))
        fence_part.write(np.concatenate(self._key_numbers).data)
        parts = (self._page_part, fence_part, self._filter_part)
        checksums = [part.checksum for part in parts]
        footer = FOOTER.pack(MARK, self._rows, self._layout.pack(), self._filter_bits, *checksums, 0)[:-4]
        PartWriter(self._file, fence_part.end).write(memoryview(footer + struct.pack("<I", zlib.crc32(footer))))

    def _write_pages(self, visits: VisitRows) -> None:
        """Writes whole pages, or the last one."""
        for first in range(0, len(visits), ROWS_ENCODED_AT_ONCE):
            encoded = self._layout.encode(visits.take(slice(first, first + ROWS_ENCODED_AT_ONCE)))
            self._page_part.write(memoryview(self._layout.join_blocks(encoded)))
            self._key_numbers.append((encoded.key_counts - 1).astype(np.uint8))
        self._fences.append(visits.key[:: self._layout.page_rows].copy())
        self._written_rows += len(visits)


class PartWriter:
    """Writes a part of a file that begins at a place."""

    def __init__(self, file: BinaryIO, place: int) -> None:
        self._file = file
        self.end = place
        self.checksum = 0

    def write(self, content: memoryview) -> None:
        """Writes the next bytes."""
        self._file.seek(self.end)
        self._file.write(content)
        self.end += len(content)
        self.checksum = zlib.crc32(content, self.checksum)
