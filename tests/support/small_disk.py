"""A small disk that tests can fill."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import skip_missing


@dataclass
class SmallDisk:
    folder: Path

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Fills the disk completely."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Mounts a disk of `size` bytes, if tests may mount."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        skip_missing("small-disk", "The tests mount one, which takes the rights of root.")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
