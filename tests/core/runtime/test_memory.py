"""Threads of one process share a limited number of heaps, and free memory is returned."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.core.runtime.memory import MAX_MALLOC_ARENAS

COUNT = """
import ctypes, sys, threading
from copydesk.core.runtime import memory

memory.limit_malloc_arenas()
gate = threading.Barrier(9)

def hold():
    held = [bytes(10_000) for _ in range(100)]
    gate.wait()

threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads:
    thread.start()
gate.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
@pytest.mark.parametrize("chosen", [None, "5"])
def test_threads_share_the_configured_number_of_heaps(tmp_path: Path, chosen: str | None) -> None:
    told = tmp_path / "heaps.xml"
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    if chosen:
        environment["MALLOC_ARENA_MAX"] = chosen
    subprocess.run([sys.executable, "-c", COUNT, str(told)], env=environment, check=True)
    assert told.read_text().count("<heap nr=") == int(chosen or MAX_MALLOC_ARENAS)


RETURN = """
from copydesk.core.runtime import memory

def read_megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1000 for line in status if line.startswith("RssAnon:"))

held = [b"x" * (50_000 + number % 7) for number in range(4_000)]  # below malloc's threshold for memory of its own
del held[:-1]
before = read_megabytes()
memory.return_free_memory()
print(before, read_megabytes())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not asked")
def test_memory_that_malloc_keeps_is_returned() -> None:
    output = subprocess.run([sys.executable, "-c", RETURN], capture_output=True, text=True, check=True).stdout
    before, after = map(int, output.split())
    assert before > 150
    assert after < before - 100
