"""The end of the process: it leaves out Python's teardown of modules, which is slow and makes DuckDB print warnings."""

import atexit
import os
import sys


class QuickExit:
    """Ends the process with `status` after all other exit handlers ran, if it is made before they are registered.

    By then the interpreter has waited for threads, and commands have closed their stores. What is left is the teardown
    of modules: it frees memory that the system frees anyway, and DuckDB's bindings list every object that a daemon
    thread or `gc.freeze` still holds then on standard error ("nanobind: leaked …").
    """

    def __init__(self) -> None:
        self.status = 1
        """The exit code of an error that is not handled, until another one is known."""
        self._process_id = os.getpid()
        atexit.register(self._end_process)

    def _end_process(self) -> None:
        """Leaves the end to the interpreter in a forked child, and when output cannot be written, which it reports."""
        if os.getpid() != self._process_id:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            return
        os._exit(self.status)
