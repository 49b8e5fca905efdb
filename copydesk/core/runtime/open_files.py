"""The limit of open files and connections of this process."""

import resource
from contextlib import suppress

MAX_OPEN_FILES = 16_384


def raise_open_files_limit() -> None:
    """Increases the limit of open files and connections to MAX_OPEN_FILES, or to the hard limit if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
