"""Landlock and seccomp: what a process gives up for good, for itself and for all that it starts."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from copydesk.jobs.sandbox.seccomp import NotSupported

LEAST_ABI = 6
"""Of Landlock, Linux 6.12: from there on signals and abstract sockets stay inside as well. It keeps a process from
socket files only from version 9 on, and never from watching folders: the filter of system calls does both."""

READ, EXECUTE = 1 << 2 | 1 << 3, 1 << 0
WRITE_FILE = 1 << 1 | 1 << 14
# Write, remove, make (but no devices), move, truncate.
CHANGE = WRITE_FILE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
EVERY_FILE_RIGHT = (1 << 16) - 1
OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
TCP_BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
PARENT_DEATH_SIGNAL, CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def forbid_calls(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    _checked(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    pointed = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)))
    _checked(_libc.prctl(SECCOMP, FILTER, pointed, 0, 0), "seccomp")


def landlock_abi() -> int:
    """0 where the kernel has no Landlock."""
    return max(0, int(_libc.syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def forbid_files(readable: Iterable[str], devices: Iterable[str], writable: Iterable[str]) -> None:
    """From here on only these can be opened; no TCP, and no signals or abstract sockets to what was there before."""
    if (abi := landlock_abi()) < LEAST_ABI:
        raise NotSupported(f"Landlock is version {abi} here, and {LEAST_ABI} (Linux 6.12) is needed")
    wanted = struct.pack("=QQQ", EVERY_FILE_RIGHT, TCP_BIND_AND_CONNECT, ABSTRACT_SOCKETS_AND_SIGNALS)
    rules = int(_libc.syscall(ctypes.c_long(444), wanted, ctypes.c_size_t(len(wanted)), ctypes.c_uint(0)))
    _checked(rules, "Landlock")
    for paths, rights in (
        (readable, READ | EXECUTE),
        (devices, READ | WRITE_FILE),
        (writable, READ | EXECUTE | CHANGE),
    ):
        for path in paths:
            _allow(rules, path, rights)
    _checked(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _checked(int(_libc.syscall(ctypes.c_long(446), ctypes.c_int(rules), ctypes.c_uint(0))), "Landlock")
    os.close(rules)


def adopt_orphans() -> None:
    """Whatever a descendant leaves behind becomes a child of this process."""
    _checked(_libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent(parent: int, signal: int) -> bool:
    """Has the kernel send this process the signal when its parent dies; False when it is dead already.

    The kernel does so when the thread ends that started this process, and forgets it when this process changes its
    user: call it after that, and only where the starting thread waits for this process.
    """
    _checked(_libc.prctl(PARENT_DEATH_SIGNAL, signal, 0, 0, 0), "prctl")
    return os.getppid() == parent


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # what cannot be named needs no permission
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _checked(int(_libc.syscall(ctypes.c_long(445), ctypes.c_int(rules), 1, rule, ctypes.c_uint(0))), "Landlock")
    finally:
        os.close(place)


def _checked(answer: int, what: str) -> None:
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
