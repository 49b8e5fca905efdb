"""Files of the service are for its own user alone: they hold prompts, diffs, digests of keys and sealed secrets."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from copydesk.core.runtime.private_umask import NON_OWNER_BITS
from copydesk.core.settings import Settings

SQLITE_URL_PREFIX = "sqlite:///"
SQLITE_SUFFIXES = ("", "-wal", "-shm")
SERVICE_FILE_PATTERNS = ("copydesk.db*", "analytics.*", "secret.key", "ranges.json", "mirrors")
"""Patterns of what the service creates. Users may have put files of their own beside it, which are left alone."""


def find_exposed_files(settings: Settings) -> list[Path]:
    """Returns the data folder and what the service created in it, as far as other users have rights to it.

    Looks one level deep: nobody gets through a folder that is private. Leaves out a data folder of another user, such
    as the root of a volume whose group Kubernetes sets: its mode is not the service's to choose."""
    return [path for path in _service_files(settings) if _mode(path) & NON_OWNER_BITS]


def make_files_private(settings: Settings) -> tuple[list[Path], list[Path]]:
    """Takes the rights of other users away. Returns the files that it changed, and those that it could not change."""
    changed, failed = list[Path](), list[Path]()
    for path in find_exposed_files(settings):
        try:
            path.chmod(_mode(path) & ~NON_OWNER_BITS)
        except FileNotFoundError:
            continue  # another process has removed it meanwhile
        except OSError:
            failed.append(path)
        else:
            changed.append(path)
    return changed, failed


def _service_files(settings: Settings) -> Iterator[Path]:
    folder = settings.data.absolute()
    with suppress(FileNotFoundError):
        if folder.stat().st_uid == os.geteuid():
            yield folder
        paths = {path for pattern in SERVICE_FILE_PATTERNS for path in folder.glob(pattern)}
        if settings.resolved_database_url.startswith(SQLITE_URL_PREFIX):
            paths |= {
                Path(settings.resolved_database_url.removeprefix(SQLITE_URL_PREFIX) + suffix)
                for suffix in SQLITE_SUFFIXES
            }
        yield from sorted(path for path in paths if not path.is_symlink())


def _mode(path: Path) -> int:
    """Returns the mode of a file; 0 where there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0
