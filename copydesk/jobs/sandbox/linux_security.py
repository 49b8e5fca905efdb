"""Landlock, seccomp and prctl: permanent restrictions of this process and of all processes that it starts."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from copydesk.jobs.sandbox.seccomp import NotSupported

MIN_LANDLOCK_ABI = 6
"""Landlock's version in Linux 6.12, the first that also restricts signals and abstract sockets. Landlock restricts
socket files only from version 9 on, and never restricts watching folders: the system call filter refuses both."""

READ_RIGHTS, EXECUTE_RIGHT = 1 << 2 | 1 << 3, 1 << 0
WRITE_FILE_RIGHTS = 1 << 1 | 1 << 14
# Write, remove, create (except devices), move, truncate.
CHANGE_RIGHTS = WRITE_FILE_RIGHTS | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
ALL_FILE_RIGHTS = (1 << 16) - 1
RIGHTS_ON_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
TCP_BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def install_seccomp_filter(program: bytes) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    _check_result(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    program_header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions)))
    _check_result(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program_header, 0, 0), "seccomp")


def landlock_abi() -> int:
    """Returns the version of the kernel's Landlock, or 0 if the kernel has none."""
    return max(0, int(_libc.syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def restrict_with_landlock(readable: Iterable[str], devices: Iterable[str], writable: Iterable[str]) -> None:
    """Restricts this process to opening these paths. Raises NotSupported if the kernel's Landlock is too old.

    Also refuses TCP, and signals and abstract sockets to processes outside the sandbox.
    """
    if (abi := landlock_abi()) < MIN_LANDLOCK_ABI:
        raise NotSupported(
            f"Landlock version {MIN_LANDLOCK_ABI} (Linux 6.12) is required; this kernel has version {abi}"
        )
    attributes = struct.pack("=QQQ", ALL_FILE_RIGHTS, TCP_BIND_AND_CONNECT, ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = int(_libc.syscall(ctypes.c_long(444), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)))
    _check_result(ruleset, "Landlock")
    for paths, rights in (
        (readable, READ_RIGHTS | EXECUTE_RIGHT),
        (devices, READ_RIGHTS | WRITE_FILE_RIGHTS),
        (writable, READ_RIGHTS | EXECUTE_RIGHT | CHANGE_RIGHTS),
    ):
        for path in paths:
            _allow_path(ruleset, path, rights)
    _check_result(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _check_result(int(_libc.syscall(ctypes.c_long(446), ctypes.c_int(ruleset), ctypes.c_uint(0))), "Landlock")
    os.close(ruleset)


def become_subreaper() -> None:
    """Makes this process the parent of orphaned descendants, so that it can wait for them."""
    _check_result(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent(parent: int, signal: int) -> bool:
    """Has the kernel send this process a signal when its parent dies. Returns False if the parent is already dead.

    The signal comes when the thread that started this process ends, and the kernel forgets it when this process changes
    its user. So call this after changing the user, and only if the starting thread waits for this process.
    """
    _check_result(_libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")
    return os.getppid() == parent


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # a path that this user cannot open needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= RIGHTS_ON_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _check_result(
            int(_libc.syscall(ctypes.c_long(445), ctypes.c_int(ruleset), 1, rule, ctypes.c_uint(0))), "Landlock"
        )
    finally:
        os.close(descriptor)


def _check_result(result: int, call: str) -> None:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{call}: {os.strerror(error)}")
