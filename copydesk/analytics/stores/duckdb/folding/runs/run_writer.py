"""Writes runs. The size of the filter follows from the number of rows, so it is written beside the pages, and takes no
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
        self._filter_end = 0
        """Where the next bytes of the filter are written."""
        self._filter_checksum = 0
        self._fences = [NO_VISITS.key]
        self._key_counts = [np.empty(0, np.uint8)]
        """The number of keys of each page, less one."""
        self._checksum = 0
        self._written_rows = 0
        self._waiting = NO_VISITS
        """Fewer visits than a page has, which wait for the next ones."""
        file.seek(count_filter_bytes(self._filter_bits))

    def add(self, visits: VisitRows) -> None:
        """Writes visits that follow the earlier ones."""
        self._write_filter(self._filter_builder.add(visits.key).data)
        visits = join_visits([self._waiting, visits]) if len(self._waiting) else visits
        whole_rows = len(visits) // self._layout.page_rows * self._layout.page_rows
        self._write_pages(visits.take(slice(0, whole_rows)))
        self._waiting = visits.take(slice(whole_rows, len(visits)))

    def finish(self) -> None:
        """Writes the last page and what follows the pages."""
        self._write_pages(self._waiting)
        if self._written_rows != self._rows:
            raise ValueError(f"A run of {self._rows} rows got {self._written_rows}.")
        fences = np.concatenate(self._fences).tobytes() + np.concatenate(self._key_counts).tobytes()
        self._file.write(fences)
        self._write_filter(memoryview(self._filter_builder.finish()))
        checksums = self._checksum, zlib.crc32(fences), self._filter_checksum
        footer = FOOTER.pack(MARK, self._rows, self._layout.pack(), self._filter_bits, *checksums, 0)[:-4]
        self._file.write(footer + struct.pack("<I", zlib.crc32(footer)))

    def _write_filter(self, content: memoryview) -> None:
        """Writes the next bytes of the filter, and leaves the position of the file as it is."""
        place = self._file.tell()
        self._file.seek(self._filter_end)
        self._file.write(content)
        self._file.seek(place)
        self._filter_checksum = zlib.crc32(content, self._filter_checksum)
        self._filter_end += len(content)

    def _write_pages(self, visits: VisitRows) -> None:
        if not len(visits):
            return
        content, key_counts = self._layout.encode(visits)
        self._checksum = zlib.crc32(content, self._checksum)
        self._file.write(content)
        self._key_counts.append((key_counts - 1).astype(np.uint8))
        self._fences.append(visits.key[:: self._layout.page_rows].copy())
        self._written_rows += len(visits)
