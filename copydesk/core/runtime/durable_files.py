"""Writes files that survive a power failure."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, and syncs it to disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_to_disk(path: Path) -> None:
    """Syncs a file's contents, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
