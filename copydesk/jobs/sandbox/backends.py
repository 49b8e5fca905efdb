"""The two backends of the sandbox: bubblewrap with private namespaces and mounts, and Landlock without privileges."""

import os
import signal
from typing import NoReturn

from copydesk.jobs.sandbox import linux_security
from copydesk.jobs.sandbox.protocol import SandboxRequest
from copydesk.jobs.sandbox.seccomp import NotSupported, build_seccomp_program

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
READABLE_ETC_PATHS = (
    "/etc/alternatives", "/etc/ca-certificates", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/pki/tls/certs",
    "/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
)  # fmt: skip
"""Files that programs need to start, and certificates; none contains a user name, an address or a secret."""
MACHINE_INFO_FILES = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
DEVICE_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
WORK, TMP, SHM = "/work", "/tmp", "/shm"  # noqa: S108 — private to the sandbox
SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108 — a folder on disk, where the supervisor measures it


def exec_command(request: SandboxRequest, supervisor_pid: int) -> NoReturn:
    """Replaces this process with the command, inside the sandbox.

    The kernel kills the command when the supervisor dies. Raises NotSupported or OSError if the sandbox cannot be
    set up.
    """
    if request.uid is not None:
        os.setgroups([])
        os.setgid(request.uid)
        os.setuid(request.uid)
    if not linux_security.die_with_parent(supervisor_pid, signal.SIGKILL):
        raise NotSupported("its supervisor died")
    if request.backend == "bubblewrap":
        _exec_bubblewrap(request)
    _exec_landlock(request)


def _exec_bubblewrap(request: SandboxRequest) -> NoReturn:
    mounts = [part for path in SYSTEM_FOLDERS for part in _mount_arguments(path)]
    for path in filter(
        os.path.exists, (*READABLE_ETC_PATHS, *request.readable)
    ):  # exists() is also False for paths that this user cannot access
        mounts += ["--ro-bind", path, path]
    program = build_seccomp_program(pretend_modes=False)
    read_end, write_end = os.pipe()
    os.write(write_end, program)
    os.close(write_end)
    os.set_inheritable(read_end, True)
    arguments = [
        "bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", *mounts, "--proc", "/proc", "--dev", "/dev",
        "--bind", request.folder + SHM, SHARED_MEMORY_FOLDER, "--remount-ro", "/dev",
        "--bind", request.folder + WORK, WORK, "--bind", request.folder + TMP, TMP, "--remount-ro", "/",
        "--chdir", WORK, "--seccomp", str(read_end), "--", "/bin/sh", "-c", request.command,
    ]  # fmt: skip
    try:
        os.execvpe("bwrap", arguments, build_environment(TMP))  # noqa: S606
    except FileNotFoundError:
        raise NotSupported("bwrap is not installed") from None


def _exec_landlock(request: SandboxRequest) -> NoReturn:
    work = request.folder + WORK
    tmp = request.folder + TMP
    program = build_seccomp_program(pretend_modes=True)
    os.chdir(work)
    linux_security.restrict_with_landlock(
        (*SYSTEM_FOLDERS, *READABLE_ETC_PATHS, *MACHINE_INFO_FILES, *request.readable), DEVICE_FILES, (work, tmp)
    )
    linux_security.install_seccomp_filter(program)
    os.execve("/bin/sh", ["sh", "-c", request.command], build_environment(tmp))  # noqa: S606


def _mount_arguments(path: str) -> list[str]:
    """Returns the arguments that mount a system folder. A symbolic link such as /bin → usr/bin stays a link."""
    return ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]


def build_environment(home: str) -> dict[str, str]:
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
