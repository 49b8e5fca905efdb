"""Files in the data folder that the owner of the store writes for another process, which moves them away."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SPOOL_PREFIX = "analytics.export-"
ABANDONED_SECONDS = 3600
"""A file that was not written for this long was left by a process that was killed."""


@contextmanager
def reserve_spool_file(folder: Path, target: Path) -> Iterator[Path]:
    """Yields a path in the data folder and deletes its file at the end. Each target has its own path.

    Also deletes files that killed processes have left.
    """
    _delete_abandoned_files(folder)
    name = hashlib.sha256(os.fsencode(target.absolute())).hexdigest()[:16]
    spool_file = folder / f"{SPOOL_PREFIX}{name}"
    try:
        yield spool_file
    finally:
        spool_file.unlink(missing_ok=True)


def _delete_abandoned_files(folder: Path) -> None:
    for file in folder.glob(f"{SPOOL_PREFIX}*"):
        with suppress(FileNotFoundError):
            if file.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                file.unlink()
