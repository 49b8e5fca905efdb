"""Tries to escape from a sandbox, from inside it. Prints each attempt that succeeded, and `tried` as the last line."""

import ctypes
import hashlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

STDIN_AS_RIGHTS = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))


def list_attempts(target: dict[str, Any]) -> dict[str, Callable[[], object]]:
    file = target["file"]
    folder = os.path.dirname(target["file"])
    loopback = ("127.0.0.1", target["port"])
    return {
        "read a file outside": lambda: Path(file).read_bytes(),
        **{f"list {path}": partial(os.listdir, path) for path in (folder, *target["hidden"])},
        "write to a file outside": lambda: Path(file).open("ab").write(b"x"),
        "create a file outside": lambda: Path(folder, "made").write_bytes(b"x"),
        "connect by TCP": lambda: socket.create_connection(loopback, 2),
        "send by UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", loopback),
        "connect to a socket file": lambda: socket.socket(socket.AF_UNIX).connect(target["socket"]),
        "connect to an abstract socket": lambda: socket.socket(socket.AF_UNIX).connect("\0" + target["abstract"]),
        "send to a socket file from a pair of sockets": lambda: _open_pair().sendto(b"x", target["datagrams"]),
        "send a message to a socket file": lambda: _open_pair().sendmsg([b"x"], [], 0, target["datagrams"]),
        "send a descriptor to a socket file": lambda: _open_pair().sendmsg(
            [b"x"], [STDIN_AS_RIGHTS], 0, target["datagrams"]
        ),
        "send to a socket file from a raw pair": lambda: _open_pair(socket.SOCK_RAW).sendto(b"x", target["datagrams"]),
        "send to an abstract socket from a pair": lambda: _open_pair().sendto(
            b"x", "\0" + target["abstract"] + "-datagrams"
        ),
        "watch a folder outside": lambda: _watch_folder(folder),
        "see Copydesk's environment": lambda: sorted(set(os.environ) & set(target["environment"]))[0],
        "see Copydesk's processes": lambda: _find_process(target["process"]),
    }


def _open_pair(kind: socket.SocketKind = socket.SOCK_DGRAM) -> socket.socket:
    return socket.socketpair(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)[0]


def _watch_folder(folder: str) -> None:
    """Watches a folder for files that are created or deleted. Raises OSError if the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(0)
    if descriptor < 0 or libc.inotify_add_watch(descriptor, folder.encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "inotify")


def _find_process(digest: str) -> None:
    """Looks for a process by the SHA-256 digest of its command line. Raises LookupError if it is not visible."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        if hashlib.sha256(Path("/proc", number, "cmdline").read_bytes()).hexdigest() == digest:
            return
    raise LookupError


def main() -> None:
    target = json.loads(Path("told.json").read_text())
    succeeded = []
    for what, attempt in list_attempts(target).items():
        try:
            attempt()
        except (OSError, LookupError):
            continue
        succeeded.append(what)
    # The probe observes the effect of these two from outside, because the sandbox may fake their success.
    with suppress(OSError):
        os.chmod(target["file"], 0)
    if target["victim"] != os.getpid():  # where IDs start at 1, as in a container, this process may have the same one
        with suppress(OSError):
            os.kill(target["victim"], signal.SIGKILL)
    Path("own").write_text("x")
    sys.stdout.write("".join(f"{what}\n" for what in succeeded) + "tried\n")


if __name__ == "__main__":
    main()
