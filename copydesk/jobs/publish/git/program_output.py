"""Reads the output of a running program, with limits on time and size."""

import os
import selectors
import subprocess
import time
from collections.abc import Callable

from copydesk.jobs.job import RepositoryFailed

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
WATCH_SECONDS = 0.25


def read_output(
    process: "subprocess.Popen[bytes]", timeout_seconds: float, watch: Callable[[], None]
) -> tuple[bytes, bytes]:
    """Waits until the program exits, and returns its output and the end of its error output.

    Calls `watch` several times a second and propagates its exceptions. Raises TimeoutExpired after the timeout, and
    RepositoryFailed if the output is too long, because a remote host controls how much git prints.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    out = bytearray()
    err = bytearray()
    started_at = time.monotonic()
    next_watch_at = time.monotonic() + WATCH_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        while selector.get_map():
            for key, _ in selector.select(WATCH_SECONDS):
                data = os.read(key.fd, 65_536)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
            del err[:-MAX_ERROR_BYTES]
            if len(out) > MAX_OUTPUT_BYTES:
                raise RepositoryFailed("The repository has too many branches: git's list of them exceeds 16 MiB.")
            if time.monotonic() - started_at > timeout_seconds:
                raise subprocess.TimeoutExpired(process.args, timeout_seconds)
            if time.monotonic() > next_watch_at:
                watch_started_at = time.monotonic()
                watch()
                next_watch_at = time.monotonic() + max(WATCH_SECONDS, 10 * (time.monotonic() - watch_started_at))
    process.wait(max(1.0, timeout_seconds - (time.monotonic() - started_at)))
    return bytes(out), bytes(err)
