"""Landlock and seccomp: what a process gives up for good, for itself and for all that it starts."""

import ctypes
import os
import platform
import stat
import struct
from collections.abc import Iterable

LEAST_ABI = 6
"""Of Landlock, Linux 6.12: from there on signals stay inside as well."""

READ, EXECUTE = 1 << 2 | 1 << 3, 1 << 0
WRITE_FILE = 1 << 1 | 1 << 14
# Write, remove, make (but no devices), move, truncate.
CHANGE = WRITE_FILE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
EVERY_FILE_RIGHT = (1 << 16) - 1
OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
TCP_BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
EPERM, ENOSYS, EOPNOTSUPP = 1, 38, 95

# name: (on x86-64, on ARM64); None where the processor has no such call.
SOCKETS = {"socket": (41, 198), "io_uring_setup": (425, 425)}
OTHERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "process_madvise": (440, 440), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
"""Calls that reach into other processes of the same user."""
KERNEL = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "mount_setattr": (442, 442), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
}  # fmt: skip
"""Namespaces, mounts, keys and the parts of the kernel that are attacked most."""
LASTING = {
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "memfd_create": (319, 279),
}  # fmt: skip
"""What outlives a process, or holds memory that no limit counts."""
ATTRIBUTES = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
GROUPS = {"setsid": (112, 157), "setpgid": (109, 154)}
"""Pretended, so that everything stays in one process group, which one signal ends whole."""
MODES = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
"""Landlock does not mind these, so without a mount of its own a process has them pretended as well."""
CLONE, CLONE3, PRLIMIT = (56, 220), (435, 435), (302, 261)
NEW_NAMESPACES = 0x7E020000
NEWER = 470
"""Calls that this list does not know yet do not exist inside; nor do the old ones by their second numbers."""

PROCESSORS = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16

_libc = ctypes.CDLL(None, use_errno=True)


class NotSupported(Exception):
    """This kernel or processor cannot do it; the message tells what is missing."""


def seccomp_program(*, pretend_modes: bool) -> bytes:
    """A filter as the kernel and bubblewrap read it: everything is allowed but what is named above."""
    if platform.machine() not in PROCESSORS:
        raise NotSupported(f"there is no list of system calls for {platform.machine()} processors")
    column, architecture = PROCESSORS[platform.machine()]
    answers: dict[int, int] = {}
    for calls, errno in (
        (SOCKETS | OTHERS | KERNEL | LASTING, EPERM),
        (ATTRIBUTES, EOPNOTSUPP),
        (GROUPS | (MODES if pretend_modes else {}), 0),
        ({"clone3": CLONE3}, ENOSYS),  # its flags lie in memory, out of sight; libraries fall back to clone
    ):
        answers |= {number: errno for call in calls.values() if (number := call[column]) is not None}
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    steps += [(AT_LEAST, 0, 1, NEWER), (RETURN, 0, 0, ERRNO | ENOSYS)]
    for number, errno in answers.items():
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | errno)]
    # Limits are a process's own to set, and only its own; new processes, but no new namespaces.
    steps += [(EQUAL, 0, 4, PRLIMIT[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0)]
    steps += [(RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
    steps += [(EQUAL, 0, 3, CLONE[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, NEW_NAMESPACES)]
    steps += [(RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


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
    _checked(_libc.prctl(36, 1, 0, 0, 0), "prctl")


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
