"""What the processes of a group use together, as /proc tells it, and how much a folder holds."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

MEMORY_FIELDS = ("RssAnon:", "RssShmem:", "VmPTE:")
"""Memory without what processes share with files, which can be had again, but with the tables of their pages."""


class DiskSpace(NamedTuple):
    size: int
    files: int


class Process(NamedTuple):
    id: str
    stat: list[str]
    """What /proc/…/stat says after the process's name, which may contain anything: state, parent, group, session, …"""


def list_processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat") as file:
                yield Process(name, file.read().rpartition(")")[2].split())


def list_group_members(group: int) -> list[Process]:
    """The processes of a group, without those that ended and are only waited for."""
    return [each for each in list_processes() if int(each.stat[2]) == group and each.stat[0] not in "ZX"]


def measure_memory(members: list[Process]) -> int:
    return sum(kilobytes * 1024 for each in members for kilobytes in _read_status(each, *MEMORY_FIELDS))


def count_sockets(members: list[Process], limit: int) -> int:
    """The open sockets, each counted once, though many processes may have it; not counted further than `most`.

    For a process that does not let its descriptors be seen, each of them may be a socket.
    """
    sockets, unreadable = set[str](), 0
    for each in members:
        try:
            for number in os.listdir(f"/proc/{each.id}/fd"):
                with suppress(FileNotFoundError):
                    link = os.readlink(f"/proc/{each.id}/fd/{number}")
                    if link.startswith("socket:"):
                        sockets.add(link)
        except PermissionError:
            unreadable += sum(_read_status(each, "FDSize:"))
        except OSError:
            continue  # it has ended meanwhile
        if len(sockets) + unreadable > limit:
            break
    return len(sockets) + unreadable


def count_tasks(uid: int) -> int:
    total = 0
    for each in list_processes():
        with suppress(OSError):
            total += int(each.stat[17]) if os.stat(f"/proc/{each.id}").st_uid == uid else 0
    return total


def measure_free_space(folder: str) -> DiskSpace:
    """Returns the bytes that are left on the folder's disk, and the files on it, as a negative number.

    The number of free files would not do: some file systems compute it from the free bytes."""
    stats = os.statvfs(folder)
    return DiskSpace(stats.f_bavail * stats.f_frsize, stats.f_ffree - stats.f_files)


class FolderMeter:
    """Measures a folder by the system's own program, which no depth of folders stops, while the caller goes on."""

    def __init__(self, folder: str) -> None:
        self._du_processes = [
            subprocess.Popen(["du", *options, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for options in (["-skx"], ["-sx", "--inodes"])
        ]

    def result(self) -> DiskSpace | None:
        """The folder's extent; None while it is measured. A `du` that counts no files leaves them at 0."""
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
