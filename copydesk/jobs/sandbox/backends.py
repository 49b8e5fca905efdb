"""The two ways in: bubblewrap with namespaces and mounts of its own, or Landlock, which needs no privilege at all."""

import os
import signal
from typing import NoReturn

from copydesk.jobs.sandbox import linux_security as kernel
from copydesk.jobs.sandbox.protocol import Order
from copydesk.jobs.sandbox.seccomp import NotSupported, seccomp_program

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
ETC = (
    "/etc/alternatives", "/etc/ca-certificates", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/pki/tls/certs",
    "/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
)  # fmt: skip
"""What programs need to start at all, and certificates; nothing with a name, an address or a secret in it."""
MACHINE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
WORK, TMP, SHM = "/work", "/tmp", "/shm"  # noqa: S108 — in there they are nobody else's
SHARED_MEMORY = "/dev/shm"  # noqa: S108 — a folder on disk, where the warden counts what is in it


def execute(order: Order, warden: int) -> NoReturn:
    """Becomes the command, in its sandbox, until it ends or the warden does; raises when that cannot be."""
    if order.uid is not None:
        os.setgroups([])
        os.setgid(order.uid)
        os.setuid(order.uid)
    if not kernel.die_with_parent(warden, signal.SIGKILL):
        raise NotSupported("its warden died")
    if order.backend == "bubblewrap":
        _bubblewrap(order)
    _landlock(order)


def _bubblewrap(order: Order) -> NoReturn:
    inside = [part for path in SYSTEM for part in _as_it_is(path)]
    for path in filter(os.path.exists, (*ETC, *order.readable)):  # also False where this user may not go
        inside += ["--ro-bind", path, path]
    program = seccomp_program(pretend_modes=False)
    passed, given = os.pipe()
    os.write(given, program)
    os.close(given)
    os.set_inheritable(passed, True)
    arguments = [
        "bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", *inside, "--proc", "/proc", "--dev", "/dev",
        "--bind", order.folder + SHM, SHARED_MEMORY, "--remount-ro", "/dev",
        "--bind", order.folder + WORK, WORK, "--bind", order.folder + TMP, TMP, "--remount-ro", "/",
        "--chdir", WORK, "--seccomp", str(passed), "--", "/bin/sh", "-c", order.command,
    ]  # fmt: skip
    try:
        os.execvpe("bwrap", arguments, environment(TMP))  # noqa: S606
    except FileNotFoundError:
        raise NotSupported("it is not installed") from None


def _landlock(order: Order) -> NoReturn:
    work, tmp = order.folder + WORK, order.folder + TMP
    program = seccomp_program(pretend_modes=True)
    os.chdir(work)
    kernel.forbid_files((*SYSTEM, *ETC, *MACHINE, *order.readable), DEVICES, (work, tmp))
    kernel.forbid_calls(program)
    os.execve("/bin/sh", ["sh", "-c", order.command], environment(tmp))  # noqa: S606


def _as_it_is(path: str) -> list[str]:
    """A link such as /bin → usr/bin stays one."""
    return ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]


def environment(home: str) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "USER": "check",
        "LOGNAME": "check",
        "LANG": "C.UTF-8",
        "CI": "true",
        "NO_COLOR": "1",
    }
