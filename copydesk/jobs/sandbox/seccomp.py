"""The seccomp filter: system calls that are refused or faked in the sandbox, on x86-64 and ARM64.

A filter sees a call's number and the values of its arguments, not the memory that they point to. If the dangerous part
is in memory, such as the address of sendmsg or the flags of clone3, the filter refuses the whole call.
"""

import platform
import struct

# name: (number on x86-64, number on ARM64); None means that the processor does not have the call.
SOCKET_CALLS = {
    "socket": (41, 198), "io_uring_setup": (425, 425), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "sendmsg": (46, 211), "sendmmsg": (307, 269),
}  # fmt: skip
"""Socket pairs are allowed, because programs talk to their children through them, but a pair cannot reach any other
socket: sendmsg and sendmmsg are refused, since they can name an address in memory or pass on descriptors that no limit
counts."""
WATCH_CALLS = {
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
}  # fmt: skip
"""Landlock does not restrict watching a folder outside, which reveals the names of created and deleted files."""
OTHER_PROCESS_CALLS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "process_madvise": (440, 440), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
"""Calls that affect other processes of the same user."""
KERNEL_CALLS = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "mount_setattr": (442, 442), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
}  # fmt: skip
"""Namespaces, mounts, keys, and the parts of the kernel that are attacked most often."""
LASTING_RESOURCE_CALLS = {
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "memfd_create": (319, 279),
}  # fmt: skip
"""Calls that create resources which outlive a process or use memory that no limit counts."""
XATTR_CALLS = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
PROCESS_GROUP_CALLS = {"setsid": (112, 157), "setpgid": (109, 154)}
"""Faked, so that all processes stay in one process group, which one signal ends."""
FILE_METADATA_CALLS = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
"""Faked under Landlock, which does not restrict these calls. Bubblewrap has private mounts and allows them."""
CLONE, CLONE3, PRLIMIT = (56, 220), (435, 435), (302, 261)
SOCKETPAIR, SETSOCKOPT, PRCTL = (53, 199), (54, 208), (157, 167)
AF_UNIX, SOCKET_TYPE_BITS, CONNECTED_TYPES = 1, 0xF, (1, 5)
"""Only pairs of SOCK_STREAM and SOCK_SEQPACKET are allowed: a SOCK_DGRAM socket, or SOCK_RAW, which is the same, can
send to any socket file by its address. Flags such as SOCK_CLOEXEC are in the bits above the type."""
SOL_SOCKET, BUFFER_SIZES = 1, (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE and SO_RCVBUFFORCE; faked, since buffers use memory that no limit counts."""
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE = 1, 4
"""Faked options of prctl: with the first, a command could outlive its supervisor; with the second, hide from it."""
NAMESPACE_FLAGS = 0x7E020000
FIRST_UNKNOWN_CALL = 470
"""Calls from this number on fail with ENOSYS: calls newer than this list, and all calls by their x32 numbers."""

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
CALL_NUMBER_OFFSET, ARCHITECTURE_OFFSET = 0, 4
FIRST_ARGUMENT_OFFSET, SECOND_ARGUMENT_OFFSET, THIRD_ARGUMENT_OFFSET = 16, 24, 32
EPERM, ENOSYS, EOPNOTSUPP = 1, 38, 95
Instruction = tuple[int, int, int, int]
"""An instruction of the filter: code, steps to jump if true, steps to jump if false, operand."""


class NotSupported(Exception):
    """This machine cannot run the sandbox; the message says why."""


def build_seccomp_program(*, pretend_modes: bool, machine: str = "") -> bytes:
    """Returns the filter as the kernel and bubblewrap read it. It allows every call that is not listed above.

    With `pretend_modes`, calls that change modes, owners and times are faked: they succeed without an effect.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise NotSupported(f"the system call filter does not support {machine} processors")
    column, architecture = ARCHITECTURES[machine]
    errno_by_call: dict[int, int] = {}
    for calls, errno in (
        (SOCKET_CALLS | WATCH_CALLS | OTHER_PROCESS_CALLS | KERNEL_CALLS | LASTING_RESOURCE_CALLS, EPERM),
        (XATTR_CALLS, EOPNOTSUPP),
        (PROCESS_GROUP_CALLS | (FILE_METADATA_CALLS if pretend_modes else {}), 0),
        ({"clone3": CLONE3}, ENOSYS),  # its flags are in memory; libraries fall back to clone
    ):
        errno_by_call |= {number: errno for call in calls.values() if (number := call[column]) is not None}
    instructions: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
    ]
    instructions += [
        (LOAD, 0, 0, CALL_NUMBER_OFFSET),
        (AT_LEAST, 0, 1, FIRST_UNKNOWN_CALL),
        (RETURN, 0, 0, ERRNO | ENOSYS),
    ]
    for number, errno in errno_by_call.items():
        instructions += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | errno)]
    for call, tests in _argument_rules():
        instructions += [(EQUAL, 0, len(tests), call[column]), *tests]
    instructions.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in instructions)


def _argument_rules() -> list[tuple[tuple[int, int], list[Instruction]]]:
    """Returns the calls that are decided by their arguments, with the instructions that decide and end in a verdict."""
    allow = (RETURN, 0, 0, ALLOW)
    refuse = (RETURN, 0, 0, ERRNO | EPERM)
    pretend = (RETURN, 0, 0, ERRNO)
    stream, packets = CONNECTED_TYPES
    pair_tests = [(LOAD, 0, 0, FIRST_ARGUMENT_OFFSET), (EQUAL, 0, 4, AF_UNIX), (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET)]
    pair_tests += [(AND, 0, 0, SOCKET_TYPE_BITS), (EQUAL, 2, 0, stream), (EQUAL, 1, 0, packets), refuse, allow]
    buffer_tests = [
        (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET),
        (EQUAL, 0, 5, SOL_SOCKET),
        (LOAD, 0, 0, THIRD_ARGUMENT_OFFSET),
    ]
    buffer_tests += [(EQUAL, 4 - place, 0, option) for place, option in enumerate(BUFFER_SIZES)]
    buffer_tests += [allow, pretend]
    return [
        # A process can change only its own limits (pid 0), and can create processes but not namespaces.
        (PRLIMIT, [(LOAD, 0, 0, FIRST_ARGUMENT_OFFSET), (EQUAL, 1, 0, 0), refuse, allow]),
        (CLONE, [(LOAD, 0, 0, FIRST_ARGUMENT_OFFSET), (ANY_BIT, 0, 1, NAMESPACE_FLAGS), refuse, allow]),
        (SOCKETPAIR, pair_tests),
        (SETSOCKOPT, buffer_tests),
        (PRCTL, [(LOAD, 0, 0, FIRST_ARGUMENT_OFFSET), (EQUAL, 1, 0, SET_PARENT_DEATH_SIGNAL),
                 (EQUAL, 0, 1, SET_DUMPABLE),
                 pretend, allow]),
    ]  # fmt: skip
