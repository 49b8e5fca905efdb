"""What a sandbox must prevent, tried from inside it. Prints what could be done after all, and last of all `tried`."""

import hashlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any


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
        "see our environment": lambda: sorted(set(os.environ) & set(told["environment"]))[0],
        "see our processes": lambda: _see(told["process"]),
    }


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
