"""Makes the files of the service private: they hold prompts, diffs, key digests and encrypted secrets."""

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
"""Patterns of the files that the service creates. Files that users put beside them stay as they are."""


def find_exposed_files(settings: Settings) -> list[Path]:
    """Returns the data folder and the service's files in it that other users have permissions for.

    Looks one level deep, since a private folder protects its contents. Skips a data folder that another user owns, such
    as the root of a volume whose group Kubernetes sets: the service cannot choose its mode."""
    return [path for path in _service_files(settings) if _mode(path) & NON_OWNER_BITS]


def make_files_private(settings: Settings) -> tuple[list[Path], list[Path]]:
    """Removes the permissions of other users. Returns the changed paths and the paths that it could not change."""
    changed = list[Path]()
    failed = list[Path]()
    for path in find_exposed_files(settings):
        try:
            path.chmod(_mode(path) & ~NON_OWNER_BITS)
        except FileNotFoundError:
            continue  # another process has removed it
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
    """Returns the permission bits of a file, or 0 if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0
