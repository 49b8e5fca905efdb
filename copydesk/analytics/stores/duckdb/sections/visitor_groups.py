"""Splits visits that do not fit into memory into groups of visitors, in temporary files."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.errors import StoreFull

MAX_GROUPS = 200
Records = NDArray[Any]
"""Visits as an array of records, with a field `visitor`."""


def count_groups(visits: int, visits_per_group: int) -> int:
    return min(1 + visits // visits_per_group, MAX_GROUPS)


def split_by_visitor(parts: Iterable[Records], groups: int, folder: Path) -> Iterator[Records]:
    """Yields the visits in groups that have no visitor in common, from temporary files in a folder.

    Raises StoreFull if the disk refuses them.
    """
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(TemporaryFile(dir=folder)) for _ in range(groups)]
            record_type = _write_groups(parts, files)
            for file in files if record_type is not None else []:
                file.seek(0)
                yield np.frombuffer(file.read(), record_type)
        except OSError as error:
            raise StoreFull from error


def _write_groups(parts: Iterable[Records], files: Sequence[IO[bytes]]) -> "np.dtype[Any] | None":
    """Writes the visits of each group to its file. Returns the type of the records, or None if there are none."""
    record_type = None
    for records in parts:
        record_type = records.dtype
        group = (records["visitor"] % len(files)).astype(np.uint8)
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(files) + 1))
        ordered = records[order]
        for file, (first, end) in zip(files, pairwise(bounds.tolist()), strict=True):
            file.write(ordered[first:end].tobytes())
    return record_type
