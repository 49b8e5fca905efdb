"""Programs that some machines cannot have, with the reason. CI fails if any other program is missing."""

import platform
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

CAP_SYS_ADMIN = 1 << 21


class Excuse(NamedTuple):
    program: str
    applies: Callable[[], bool]
    reason: str


@cache
def can_create_user_namespaces() -> bool:
    try:
        return subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def can_mount() -> bool:
    """Checks the capabilities: root in a container often may not mount."""
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.M)
    return effective is not None and bool(int(effective[1], 16) & CAP_SYS_ADMIN)


def is_kernel_older_than(*version: int) -> bool:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2]) < version


EXCUSES = (
    Excuse(
        "helm",
        lambda: platform.machine() != "x86_64",
        "Its wheel is built for x86-64 alone, and Debian has no package.",
    ),
    Excuse(
        "bubblewrap",
        lambda: not can_create_user_namespaces(),
        "It needs user namespaces, which a chroot and most containers refuse.",
    ),
    Excuse(
        "landlock",
        lambda: is_kernel_older_than(6, 12),
        "The sandbox needs Linux 6.12 or newer.",
    ),
    Excuse(
        "small-disk",
        lambda: not can_mount(),
        "Only root may mount a file system.",
    ),
)


def find_excuse(program: str) -> str | None:
    """Returns the reason why this machine cannot have the program, or None if it can."""
    return next((excuse.reason for excuse in EXCUSES if excuse.program == program and excuse.applies()), None)
