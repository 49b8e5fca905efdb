"""What a process keeps for good: how often garbage is looked for, and how many heaps its threads have."""

import ctypes
import gc
import os
from contextlib import suppress

GC_THRESHOLDS = (20_000, 20, 20)
"""New objects from which cycles are looked for, where Python's own is 700: a batch of views is thousands, and none of
them is in a cycle."""
M_ARENA_MAX = -8
MAX_MALLOC_ARENAS = 2


def tune_garbage_collector() -> None:
    """What is loaded by now stays: going through it again and again cost requests up to 0.4 s now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def unfreeze() -> None:
    """Gives what `settle` froze back to the garbage collector, for a command in a process that goes on or ends.

    At the end of the process, frozen objects are not freed: DuckDB's bindings report them on standard error as leaks.
    """
    gc.unfreeze()


def limit_malloc_arenas() -> None:
    """glibc gives each thread a heap, and one heap has no use for what was freed in another: a server of thirty threads
    went on growing. Called before there are threads; whoever set MALLOC_ARENA_MAX has decided it, and other systems
    have nothing of the kind."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, MAX_MALLOC_ARENAS)
