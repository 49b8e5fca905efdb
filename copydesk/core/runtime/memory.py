"""Memory settings of a long-running process: the garbage collector and the heaps of its threads."""

import ctypes
import gc
import os
from contextlib import suppress

GC_THRESHOLDS = (20_000, 20, 20)
"""Far above Python's default of 700 new objects: a batch of views creates thousands, and none of them is in a cycle."""
M_ARENA_MAX = -8
MAX_MALLOC_ARENAS = 2


def tune_garbage_collector() -> None:
    """Freezes all objects that are loaded by now, and makes collections rarer.

    Scanning the loaded objects in every full collection delayed requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def unfreeze() -> None:
    """Unfreezes the objects that `tune_garbage_collector` froze. Called at the end of a command.

    Frozen objects are not freed when the process ends: DuckDB's bindings report them on standard error as leaks.
    """
    gc.unfreeze()


def limit_malloc_arenas() -> None:
    """Limits the number of malloc arenas (heaps) of glibc. Call it before starting threads.

    By default each thread gets an arena and cannot reuse memory that was freed in another, so a server with many
    threads keeps growing. Respects MALLOC_ARENA_MAX if it is set, and does nothing on systems without glibc.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, MAX_MALLOC_ARENAS)


def return_free_memory() -> None:
    """Returns the memory that was freed, and that malloc keeps for later, to the operating system.

    Large arrays of different sizes leave free memory between others, which glibc returns only if it is asked. Takes a
    few milliseconds. Does nothing on systems without glibc.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
