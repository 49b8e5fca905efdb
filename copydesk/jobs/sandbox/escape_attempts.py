"""What a sandbox must prevent, tried from inside it. Prints what could be done after all, and last of all `tried`."""

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

STANDARD_INPUT = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))


def attempts(told: dict[str, Any]) -> dict[str, Callable[[], object]]:
    file, folder = told["file"], os.path.dirname(told["file"])
    loopback = ("127.0.0.1", told["port"])
    return {
        "read a file outside": lambda: Path(file).read_bytes(),
        **{f"list {path}": partial(os.listdir, path) for path in (folder, *told["hidden"])},
        "write to a file outside": lambda: Path(file).open("ab").write(b"x"),
        "make a file outside": lambda: Path(folder, "made").write_bytes(b"x"),
        "connect by TCP": lambda: socket.create_connection(loopback, 2),
        "send by UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", loopback),
        "connect to a socket file": lambda: socket.socket(socket.AF_UNIX).connect(told["socket"]),
        "connect to an abstract socket": lambda: socket.socket(socket.AF_UNIX).connect("\0" + told["abstract"]),
        "send to a socket file from a pair of sockets": lambda: _pair().sendto(b"x", told["datagrams"]),
        "send a message to a socket file": lambda: _pair().sendmsg([b"x"], [], 0, told["datagrams"]),
        "send a descriptor to a socket file": lambda: _pair().sendmsg([b"x"], [STANDARD_INPUT], 0, told["datagrams"]),
        "send to a socket file from a raw pair": lambda: _pair(socket.SOCK_RAW).sendto(b"x", told["datagrams"]),
        "send to an abstract socket from a pair": lambda: _pair().sendto(b"x", "\0" + told["abstract"] + "-datagrams"),
        "watch a folder outside": lambda: _watch(folder),
        "see our environment": lambda: sorted(set(os.environ) & set(told["environment"]))[0],
        "see our processes": lambda: _see(told["process"]),
    }


def _pair(kind: socket.SocketKind = socket.SOCK_DGRAM) -> socket.socket:
    return socket.socketpair(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)[0]


def _watch(folder: str) -> None:
    """OSError unless the kernel would tell of files that come and go there."""
    libc = ctypes.CDLL(None, use_errno=True)
    watches = libc.inotify_init1(0)
    if watches < 0 or libc.inotify_add_watch(watches, folder.encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "inotify")


def _see(wanted: str) -> None:
    """LookupError unless a process with this command line, as a digest, is there."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        if hashlib.sha256(Path("/proc", number, "cmdline").read_bytes()).hexdigest() == wanted:
            return
    raise LookupError


def main() -> None:
    told = json.loads(Path("told.json").read_text())
    done = []
    for what, attempt in attempts(told).items():
        try:
            attempt()
        except (OSError, LookupError):
            continue
        done.append(what)
    # Whether these two did anything is seen from outside: they may only be pretended.
    with suppress(OSError):
        os.chmod(told["file"], 0)
    with suppress(OSError):
        os.kill(told["victim"], signal.SIGKILL)
    Path("own").write_text("x")
    sys.stdout.write("".join(f"{what}\n" for what in done) + "tried\n")


if __name__ == "__main__":
    main()
