"""Makes visits and runs of them for tests."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.earlier_pages import (
    FIXED_PAGE_FOOTER,
    FIXED_PAGE_MARK,
    SPLIT_PAGE_FOOTER,
    SPLIT_PAGE_MARK,
    FixedPageLayout,
)
from copydesk.analytics.stores.duckdb.folding.runs.open_run import open_run
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import CLASS_BIT_COUNT, PageLayout, find_bounds
from copydesk.analytics.stores.duckdb.folding.runs.run_writer import write_run
from copydesk.analytics.stores.duckdb.folding.visit_rows import VisitRows, join_visits

COLUMN_FORMATS = [b"visits01", b"visits02", b"visits03"]
EARLIER_FORMATS = [*COLUMN_FORMATS, FIXED_PAGE_MARK, SPLIT_PAGE_MARK]
PAGE_ROWS = 128
"""The visits of a page of a short file."""


def make_visits(count: int, seed: int = 1) -> VisitRows:
    """Makes visits sorted by key. Most keys occur several times."""
    chance = np.random.default_rng(seed)
    return VisitRows(
        np.sort(chance.integers(0, max(count // 2, 1), count, dtype=np.int64)),
        chance.integers(1, 9, count, dtype=np.int32),
        chance.integers(1, 99, count, dtype=np.uint16),
        chance.integers(1, 31, count, dtype=np.uint8),
    )


def make_hashed_visits(count: int, seed: int = 1) -> VisitRows:
    """Makes visits with keys that are spread over all numbers, as hashes are. Many occur twice."""
    visits = make_visits(count, seed)
    return VisitRows(visits.key * (2**63 // max(count // 2, 1)), visits.scope, visits.day, visits.bits)


def write_visits(path: Path, *parts: VisitRows) -> RunFile:
    """Writes a run of these parts, opens it, and reads all of it."""
    visits = join_visits(parts)
    write_run(path, len(visits), find_bounds(visits), lambda: parts)
    run = open_run(path, len(visits))
    assert isinstance(run, RunFile)
    run.verify()
    return run


def split_visits(visits: VisitRows, part_rows: int) -> Sequence[VisitRows]:
    return [visits.take(slice(first, first + part_rows)) for first in range(0, len(visits), part_rows)]


def to_tuples(rows: VisitRows) -> list[tuple[int, int, int, int]]:
    return sorted(zip(*(column.tolist() for column in rows.columns()), strict=True))


def write_earlier_run(path: Path, mark: bytes, visits: VisitRows) -> None:
    """Writes a run as earlier versions did: the first had columns, the second fences, which were every 512th key, the
    third every 128th key and a filter, the fourth pages of one size, and the fifth pages, and then the keys of all."""
    if mark == FIXED_PAGE_MARK:
        write_fixed_pages(path, visits)
        return
    if mark == SPLIT_PAGE_MARK:
        write_split_pages(path, visits)
        return
    contents = [column.tobytes() for column in visits.columns()]
    numbers = b""
    if mark == b"visits02":
        contents.append(visits.key[::512].tobytes())
    if mark == b"visits03":
        contents += [visits.key[::128].tobytes(), b"\xff" * (len(visits) // 2)]
        numbers = struct.pack("<IQ", 128, len(visits) * 4)
    checksums = struct.pack(f"<{len(contents)}I", *map(zlib.crc32, contents))
    path.write_bytes(b"".join(contents) + struct.pack("<8sQ", mark, len(visits)) + numbers + checksums)


def write_fixed_pages(path: Path, visits: VisitRows, key_bytes: int = 8) -> None:
    """Writes a run of the fourth format: pages, fences and a filter. Distances of keys must fit into these bytes."""
    layout = FixedPageLayout(PAGE_ROWS, key_bytes, CLASS_BIT_COUNT, find_bounds(visits))
    pages = np.zeros(layout.count_pages(len(visits)), layout.page_type)
    fences = visits.key[::PAGE_ROWS]
    distance = visits.key - np.repeat(fences, PAGE_ROWS)[: len(visits)]
    day_bits = (layout.bounds.last_day - layout.bounds.first_day).bit_length()
    packed = (visits.scope.astype(np.int64) << day_bits) + visits.day - layout.bounds.first_day
    columns = {
        "key": visits.key, "low": distance & 0xFFFFFFFF, "high": distance >> 32 & 0xFFFF, "top": distance >> 48,
        "scope": visits.scope, "day": visits.day, "bits": visits.bits,
        "packed": packed << CLASS_BIT_COUNT | visits.bits,
    }  # fmt: skip
    for name in layout.page_type.names or ():
        filled = np.zeros(pages[name].size, np.int64)
        filled[: len(visits)] = columns[name]
        pages[name] = filled.reshape(pages[name].shape)
    contents = [pages.tobytes(), fences.tobytes(), b"\xff" * (len(visits) // 2)]
    numbers = len(visits), layout.pack(), len(visits) // 2 * 8
    footer = FIXED_PAGE_FOOTER.pack(FIXED_PAGE_MARK, *numbers, *map(zlib.crc32, contents), 0)[:-4]
    path.write_bytes(b"".join(contents) + footer + struct.pack("<I", zlib.crc32(footer)))


def write_split_pages(path: Path, visits: VisitRows, key_bytes: int = 8) -> None:
    """Writes a run of the fifth format: a filter, pages, the keys of all pages but the first of each, fences, and the
    number of keys of each page, less one. Distances of keys must fit into these bytes."""
    layout = PageLayout(PAGE_ROWS, key_bytes, CLASS_BIT_COUNT, find_bounds(visits))
    pages, _, key_counts = layout.encode(visits)
    keys = b""
    for first in range(0, len(visits), PAGE_ROWS):
        key = visits.key[first : first + PAGE_ROWS]
        keys += b"".join(int(distance).to_bytes(key_bytes, "little") for distance in np.diff(key) if distance)
    filter_bytes = b"\xff" * (-(-len(visits) // 32) * 4)
    fences = visits.key[::PAGE_ROWS].tobytes() + (key_counts - 1).astype(np.uint8).tobytes()
    numbers = len(visits), layout.pack(), len(filter_bytes) * 8
    checksums = map(zlib.crc32, (pages.tobytes(), keys, fences, filter_bytes))
    footer = SPLIT_PAGE_FOOTER.pack(SPLIT_PAGE_MARK, *numbers, *checksums, 0)[:-4]
    footer += struct.pack("<I", zlib.crc32(footer))
    path.write_bytes(b"".join((filter_bytes, pages.tobytes(), keys, fences, footer)))
