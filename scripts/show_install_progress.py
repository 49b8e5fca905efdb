"""Runs pip and shows how far it is: python show_install_progress.py TOTAL COMMAND…

One line on a terminal that changes in place; elsewhere a line every few seconds. Pip's own output is printed only when
pip fails.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

SECONDS_BETWEEN_LINES = 10


class Progress:
    """Counts what pip has collected, then what has arrived in the environment."""

    def __init__(self, total: int) -> None:
        self.total, self.collected = total, 0
        self.is_installing = False
        self._is_terminal = sys.stderr.isatty()
        self._packages = next(Path(sys.prefix).glob("lib/python*/site-packages"), Path(sys.prefix))
        self._there_before = self._count_installed()
        self._done = threading.Event()

    def run(self) -> None:
        pause = 0.5 if self._is_terminal else SECONDS_BETWEEN_LINES
        while not self._done.wait(pause):
            self._print()

    def read(self, line: str) -> None:
        """Counts a line that pip printed."""
        if line.startswith("Installing collected packages: "):
            self.collected, self.is_installing = line.count(",") + 1, True
        elif line.lstrip().startswith(("Downloading ", "Using cached ")):
            self.collected += 1

    def stop(self) -> None:
        self._done.set()
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _print(self) -> None:
        if self.is_installing:
            text = f"  installed {self._count_installed() - self._there_before} of {self.collected}"
        else:
            text = f"  downloaded {self.collected} of up to {self.total}"
        start, end = ("\r\033[K", "") if self._is_terminal else ("", "\n")
        print(start + text, end=end, file=sys.stderr, flush=True)

    def _count_installed(self) -> int:
        return sum(1 for _ in self._packages.glob("*.dist-info"))


def main(total: str, *command: str) -> int:
    began, output, progress = time.monotonic(), list[str](), Progress(int(total))
    shown = threading.Thread(target=progress.run, daemon=True)
    shown.start()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # pip's lines arrive when they are printed
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            output.append(line)
            progress.read(line)
    progress.stop()
    shown.join()
    if pip.returncode != 0:
        sys.stderr.writelines(output)
    else:
        print(f"Installed in {time.monotonic() - began:.0f} s.", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
