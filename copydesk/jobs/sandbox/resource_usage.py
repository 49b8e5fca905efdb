"""Measures the resources that a process group uses in total, from /proc, and the size of a folder."""

import errno
import os
import resource
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

MEMORY_FIELDS = ("RssAnon:", "RssShmem:", "VmPTE:")
"""Memory including page tables, but without memory backed by files, which the kernel can reclaim."""

MAX_TASKS = 1 << 22
"""Linux cannot run more processes and threads than this."""


class DiskSpace(NamedTuple):
    size: int
    files: int


class Process(NamedTuple):
    id: str
    stat: list[str]
    """Fields of /proc/…/stat after the name, which may contain any character: state, parent, group, session, …"""


def list_processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat") as file:
                yield Process(name, file.read().rpartition(")")[2].split())


def list_group_members(group: int) -> list[Process]:
    """Returns the processes of a group, without those that have ended (zombies)."""
    return [each for each in list_processes() if int(each.stat[2]) == group and each.stat[0] not in "ZX"]


def measure_memory(members: list[Process]) -> int:
    return sum(kilobytes * 1024 for each in members for kilobytes in _read_status(each, *MEMORY_FIELDS))


def count_sockets(members: list[Process], limit: int) -> int:
    """Counts the open sockets of these processes; a shared socket counts once. Stops early above `limit`.

    If the descriptors of a process cannot be read, each of them counts as a socket.
    """
    sockets = set[str]()
    unreadable = 0
    for each in members:
        try:
            for number in os.listdir(f"/proc/{each.id}/fd"):
                with suppress(FileNotFoundError):
                    link = os.readlink(f"/proc/{each.id}/fd/{number}")
                    if link.startswith("socket:"):
                        sockets.add(link)
        except PermissionError:
            if _read_status(each, "VmSize:"):  # a process that is exiting has no memory, and cannot be read either
                unreadable += sum(_read_status(each, "FDSize:"))
        except OSError:
            continue  # the process has ended in the meantime
        if len(sockets) + unreadable > limit:
            break
    return len(sockets) + unreadable


def measure_deleted_files(members: list[Process], folder: str) -> int:
    """Returns the space of deleted files that these processes still have open, on the disk of a folder.

    A file that several processes have open counts once.
    """
    device = os.stat(folder).st_dev
    sizes: dict[int, int] = {}
    for each in members:
        with suppress(OSError):  # the process has ended in the meantime, or cannot be read
            for number in os.listdir(f"/proc/{each.id}/fd"):
                with suppress(FileNotFoundError):
                    file = os.stat(f"/proc/{each.id}/fd/{number}")
                    if stat.S_ISREG(file.st_mode) and not file.st_nlink and file.st_dev == device:
                        sizes[file.st_ino] = file.st_blocks * 512
    return sum(sizes.values())


def count_tasks(uid: int) -> int:
    """Counts the visible processes and threads of a user."""
    total = 0
    for each in list_processes():
        with suppress(OSError):
            total += int(each.stat[17]) if os.stat(f"/proc/{each.id}").st_uid == uid else 0
    return total


def measure_own_tasks() -> int:
    """Returns how many processes and threads the kernel counts for the current user. Leaves RLIMIT_NPROC changed.

    Finds the lowest limit with which a process can be started. /proc alone shows too few: the kernel also counts those
    in other containers, and those in user namespaces that this user created. Raises BlockingIOError if no process can
    be started at all.
    """
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    highest = MAX_TASKS if hard == resource.RLIM_INFINITY else min(hard, MAX_TASKS)
    too_low = min(count_tasks(os.getuid()), highest)
    enough = min(too_low + 1, highest)
    while not _can_fork(enough, hard):
        if enough == highest:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        too_low = enough
        enough = min(2 * enough, highest)
    while enough - too_low > 1:
        middle = (too_low + enough) // 2
        if _can_fork(middle, hard):
            enough = middle
        else:
            too_low = middle
    return enough - 1


def _can_fork(limit: int, hard: int) -> bool:
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))
    try:
        child_pid = os.fork()
    except BlockingIOError:
        return False
    if child_pid == 0:
        os._exit(0)
    os.waitpid(child_pid, 0)
    return True


def measure_free_space(folder: str) -> DiskSpace:
    """Returns the free bytes of the folder's disk, and the number of files on it as a negative number.

    Both decrease as the disk fills. The number of free files is not usable: some file systems compute it from the
    free bytes."""
    stats = os.statvfs(folder)
    return DiskSpace(stats.f_bavail * stats.f_frsize, stats.f_ffree - stats.f_files)


class FolderMeter:
    """Measures a folder in the background with `du`, which handles folders nested to any depth."""

    def __init__(self, folder: str) -> None:
        self._du_processes = [
            subprocess.Popen(["du", *options, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for options in (["-skx"], ["-sx", "--inodes"])
        ]

    def result(self) -> DiskSpace | None:
        """Returns the folder's size, or None while `du` is running. `files` is 0 if this `du` cannot count files."""
        if any(each.poll() is None for each in self._du_processes):
            return None
        kilobytes, files = (each.communicate()[0].split() for each in self._du_processes)
        return DiskSpace(int(kilobytes[0]) * 1024 if kilobytes else 0, int(files[0]) if files else 0)

    def stop(self) -> None:
        for each in self._du_processes:
            each.kill()
            each.communicate()


def _read_status(process: Process, *field_names: str) -> list[int]:
    with suppress(OSError), open(f"/proc/{process.id}/status") as file:
        return [int(line.split()[1]) for line in file if line.startswith(field_names)]
    return []
